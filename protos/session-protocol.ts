import type { ServiceDefinition } from '@grpc/grpc-js';
import { serviceNamed } from './executor-protocol.ts';

/* TypeScript types of a session between the job's user and a task. tony.proto documents the fields. */

export interface SessionMessage {
  readonly request?: SessionRequest;
  readonly joining?: { readonly containerId: string; readonly proof: Uint8Array; readonly id: string };
  readonly opened?: { readonly terminal: boolean };
  readonly data?: { readonly channel: SessionChannel; readonly bytes: Uint8Array };
  readonly endOfData?: { readonly channel: SessionChannel };
  readonly window?: Window;
  readonly ended?: SessionEnd;
}

export interface SessionRequest {
  readonly role: string;
  readonly index: number;
  readonly port?: number;
  readonly command?: Command;
}

export interface Command {
  readonly words?: readonly string[];
  readonly terminal?: Window | null;
}

export interface Window {
  readonly columns: number;
  readonly rows: number;
  readonly type?: string;
}

export type SessionChannel = 'INPUT' | 'OUTPUT' | 'ERRORS';

export interface SessionEnd {
  readonly reason: string;
  readonly code: number;
  readonly signal: string;
}

/** Connection data for clients. The ApplicationMaster publishes it in am.json, which only the job's user can read. */
export interface SessionAddress {
  readonly host: string;
  readonly port: number;
  /** Token in hexadecimal form. */
  readonly token: string;
  /** Certificate in PEM format. */
  readonly certificate: string;
}

export const SESSION_TOKEN_METADATA = 'tony-session-token';
/** Maximum size of the data in a message, in bytes. */
export const MAXIMUM_DATA_BYTES = 32 * 1024;
/** Maximum total size of all words in a command, in bytes. */
export const MAXIMUM_COMMAND_BYTES = 32 * 1024;
export const MAXIMUM_SESSION_MESSAGE_BYTES = 64 * 1024;

export function sessionService(): ServiceDefinition {
  return serviceNamed('tony.Sessions');
}
