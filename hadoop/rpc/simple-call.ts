import { randomBytes } from 'node:crypto';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { AddressRound } from './address-round.ts';
import { type Endpoint, IpcConnection, type IpcOptions, type Protocol } from './ipc.ts';
import { decodeMessage } from './messages.ts';
import { endpointOfNode } from './records.ts';

const PATIENCE_MS = 10_000;
const TIMEOUT_MS = 10_000;

export interface SimpleCall {
  /** The daemons of the HA list, in order. */
  readonly endpoints: readonly Endpoint[];
  readonly protocol: Protocol;
  /** A user name, which clusters without Kerberos trust, or a token. */
  readonly caller: IpcOptions['caller'];
  readonly method: string;
  /** Names of the request and response messages. */
  readonly request: string;
  readonly response: string;
  readonly value: Readonly<Record<string, unknown>>;
  /** The code of the error if no daemon answers. Its message begins with `failure`. */
  readonly code: 'HDFS_UNREACHABLE' | 'RM_UNREACHABLE';
  readonly failure: string;
}

/**
 * Makes one Hadoop RPC call to the active one of several daemons, on a new connection.
 *
 * @throws TonyError with `code` if no daemon answers. No round of attempts starts after 10 s. Each attempt may take 10 s to connect and
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
