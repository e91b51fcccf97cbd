import type { ServiceDefinition } from '@grpc/grpc-js';
import { serviceNamed } from './executor-protocol.ts';

/* The TypeScript types of the stream between a feed's producer and the ApplicationMaster. tony.proto documents the fields. */

export interface ProducerMessage {
  readonly opening?: { readonly feed: string; readonly producer: string; readonly first: number };
  readonly chunk?: { readonly sequence: number; readonly records?: readonly Uint8Array[] };
  readonly ending?: { readonly last: number };
}

export interface FeedMessage {
  readonly expected?: number;
  readonly taken: number;
  readonly windowBytes: number;
  readonly over?: boolean;
  readonly readers?: number;
}

/** The connection data for a producer. The ApplicationMaster writes it to the staging folder, readable only by the job's user. */
export interface FeedAddress {
  readonly host: string;
  readonly port: number;
  readonly attempt: number;
  /** Hexadecimal. */
  readonly token: string;
  /** PEM. */
  readonly certificate: string;
}

/** Name of the file in the staging folder that contains the FeedAddress. */
export const FEED_ADDRESS_FILE = 'feed.json';
export const FEED_TOKEN_METADATA = 'tony-feed-token';
/** Maximum size of one record, and of the records in one chunk together. */
export const MAXIMUM_RECORD_BYTES = 16 * 1024 * 1024;
export const MAXIMUM_CHUNK_RECORDS = 4096;
/** Maximum size of one message: the records of a chunk and their framing. */
export const MAXIMUM_MESSAGE_BYTES = MAXIMUM_RECORD_BYTES + 64 * 1024;

/** Returns the gRPC service definition for producers. */
export function feedService(): ServiceDefinition {
  return serviceNamed('tony.Feed');
}
