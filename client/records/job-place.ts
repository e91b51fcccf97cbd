/** The location of a job's history. */
export interface JobPlace {
  readonly applicationId: string;
  /** The owner. */
  readonly user: string;
  /** URI of its folder. */
  readonly folder: string;
}

/** Names or locations found in a folder to which other users may add any number of entries. */
export interface Found<T> {
  readonly found: readonly T[];
  /** Why some may be missing; empty if complete. */
  readonly message: string;
}
