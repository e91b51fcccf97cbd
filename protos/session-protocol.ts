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
