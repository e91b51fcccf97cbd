import { randomBytes } from 'node:crypto';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { AddressRound } from './address-round.ts';
import { IpcConnection, type IpcOptions } from './ipc.ts';
import { decodeMessage } from './messages.ts';
import { endpointOfNode } from './records.ts';

const PATIENCE_MS = 10_000;
const TIMEOUT_MS = 10_000;

export interface SimpleCall {
  /** The daemons that may answer, in the order of the HA list. */
  readonly endpoints: readonly { readonly host: string; readonly port: number }[];
  readonly protocol: { readonly name: string; readonly version: number };
  /** A user name, which clusters without Kerberos trust, or a token. */
  readonly caller: IpcOptions['caller'];
  readonly method: string;
  /** Names of the request and response messages. */
  readonly request: string;
  readonly response: string;
  readonly value: Readonly<Record<string, unknown>>;
  /** The code of the error when no daemon answers; its message begins with `failure`. */
  readonly code: 'HDFS_UNREACHABLE' | 'RM_UNREACHABLE';
  readonly failure: string;
}

/**
 * Makes one Hadoop RPC call on its own connection, to the active daemon among several.
 *
 * @throws TonyError with `code` when no daemon answers. No round of attempts starts after 10 s; each attempt may take 10 s to connect and
 * another 10 s for the response.
 */
export async function simpleCall<Answer>({
  endpoints,
  protocol,
  caller,
  method,
  request,
  response,
  value,
  code,
  failure,
}: SimpleCall): Promise<Answer> {
  const round = new AddressRound(
    endpoints.map(({ host, port }) => `${host}:${port}`),
    PATIENCE_MS,
  );
  const outcome = await round.run<Answer>(async (address) => {
    const connection = new IpcConnection({
      endpoint: endpointOfNode(address),
      protocol,
      caller,
      clientId: randomBytes(16),
      connectTimeoutMs: TIMEOUT_MS,
    });
    try {
      return { result: decodeMessage<Answer>(response, await connection.call(method, request, value, TIMEOUT_MS)) };
    } catch (error) {
      return { again: messageOf(error) };
    } finally {
      connection.close();
    }
  });
  if ('result' in outcome) {
    return outcome.result;
  }
  throw new TonyError(code, `${failure} The last attempt failed: ${outcome.reason}.`);
}
