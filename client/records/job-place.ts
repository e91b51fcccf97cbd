export interface JobPlace {
  readonly jobId: string;
  readonly user: string;
  readonly folder: string;
}

/** Names or jobs found in a folder. Their number is limited, because other users can create any number of entries. */
export interface Found<T> {
  readonly found: readonly T[];
  /** Reason why entries may be missing, or an empty string if the list is complete. */
  readonly message: string;
}
