export interface JobPlace {
  readonly applicationId: string;
  /** Owner of the job. */
  readonly user: string;
  readonly folder: string;
}

/** Entries of a folder. Their number is limited, because other users can add any number of entries. */
export interface Found<T> {
  readonly found: readonly T[];
  /** Why entries may be missing; empty if the list is complete. */
  readonly message: string;
}
