/** The location of a job's history. */
export interface JobPlace {
  readonly applicationId: string;
  /** The job's owner. */
  readonly user: string;
  /** URI of the history's folder. */
  readonly folder: string;
}

/** Names or locations found in a folder. Only a limited number is read, because other users may add any number of entries. */
export interface Found<T> {
  readonly found: readonly T[];
  /** Why some entries may be missing; empty if the result is complete. */
  readonly message: string;
}
