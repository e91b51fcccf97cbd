/** Connection data for producers. The ApplicationMaster writes it to the staging folder, where only the job's user can read it. */
export interface FeedAddress {
  readonly host: string;
  readonly port: number;
  readonly attempt: number;
  /** Token in hexadecimal form. */
  readonly token: string;
  /** Certificate in PEM format. */
  readonly certificate: string;
  /** Addresses at which the executors receive partitions directly. Empty while no program reads a feed. */
  readonly doors: readonly { readonly host: string; readonly port: number }[];
}

/** Name of the file in the staging folder that contains the FeedAddress. */
export const FEED_ADDRESS_FILE = 'feed.json';
export const FEED_TOKEN_METADATA = 'tony-feed-token';
/** Maximum size of a record, and of all records in a chunk together, in bytes. */
export const MAXIMUM_RECORD_BYTES = 16 * 1024 * 1024;
export const MAXIMUM_CHUNK_RECORDS = 4096;
/** Maximum size of a message, which consists of records and their framing, in bytes. */
export const MAXIMUM_MESSAGE_BYTES = MAXIMUM_RECORD_BYTES + 64 * 1024;
