import type { ServiceDefinition } from '@grpc/grpc-js';
import { serviceNamed } from './executor-protocol.ts';

/* The stream between a feed's producer and the ApplicationMaster as TypeScript sees it; what each field means stands in tony.proto. */

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

/** What a producer needs to know, as the ApplicationMaster leaves it in the staging folder for the job's user alone. */
export interface FeedAddress {
  readonly host: string;
  readonly port: number;
  readonly attempt: number;
  /** Hexadecimal. */
  readonly token: string;
  /** PEM. */
  readonly certificate: string;
}

/** In the staging folder. */
export const FEED_ADDRESS_FILE = 'feed.json';
export const FEED_TOKEN_METADATA = 'tony-feed-token';
/** Of one record. A chunk holds several as long as they are smaller. */
export const MAXIMUM_RECORD_BYTES = 16 * 1024 * 1024;
export const MAXIMUM_CHUNK_RECORDS = 4096;
/** Of one message: a record, and what frames it. */
export const MAXIMUM_MESSAGE_BYTES = MAXIMUM_RECORD_BYTES + 64 * 1024;

/** The gRPC service of tony.proto for producers. */
export function feedService(): ServiceDefinition {
  return serviceNamed('tony.Feed');
}
