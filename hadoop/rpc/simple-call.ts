import { randomBytes } from 'node:crypto';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { HadoopMessages } from '../../protos/hadoop-messages.ts';
import { AddressRound } from './address-round.ts';
import { type Endpoint, IpcConnection, type IpcOptions, type Protocol } from './ipc.ts';
import { decodeMessage } from './messages.ts';
import { endpointOfNode } from './records.ts';
import { WeakProtection } from './sasl.ts';

const MAX_WAIT_MS = 10_000;
const TIMEOUT_MS = 10_000;

export interface SimpleCall<Request extends keyof HadoopMessages, Response extends keyof HadoopMessages> {
  /** RPC addresses of the daemons, in HA list order. */
  readonly endpoints: readonly Endpoint[];
  readonly protocol: Protocol;
  /** A token, or a user name for clusters without Kerberos. */
  readonly caller: IpcOptions['caller'];
  readonly method: string;
  readonly request: Request;
  readonly response: Response;
  readonly value: HadoopMessages[Request];
  /** Error code if no daemon responds. The error message starts with `failure`. */
  readonly code: 'HDFS_UNREACHABLE' | 'RM_UNREACHABLE';
  readonly failure: string;
}

/**
 * Makes one Hadoop RPC call on a new connection. Tries the daemons in turn to find the active one. Stops starting new rounds through all
 * daemons after 10 s. Each attempt may spend 10 s on connecting and another 10 s on waiting for the response.
 * @throws TonyError with `code` if no daemon responds, and RPC_DENIED if a daemon offers less protection than the configuration requires
 */
export async function simpleCall<Request extends keyof HadoopMessages, Response extends keyof HadoopMessages>({
  endpoints,
  protocol,
  caller,
  method,
  request,
  response,
  value,
  code,
  failure,
}: SimpleCall<Request, Response>): Promise<HadoopMessages[Response]> {
  const round = new AddressRound(
    endpoints.map(({ host, port }) => `${host}:${port}`),
    MAX_WAIT_MS,
  );
  const outcome = await round.run<HadoopMessages[Response]>(async (address) => {
    const connection = new IpcConnection({
      endpoint: endpointOfNode(address),
      protocol,
      caller,
      clientId: randomBytes(16),
      connectTimeoutMs: TIMEOUT_MS,
    });
    try {
      return { result: decodeMessage(response, await connection.call(method, request, value, TIMEOUT_MS)) };
    } catch (error) {
      if (error instanceof TonyError && error.cause instanceof WeakProtection) {
        throw new TonyError(error.code, `${failure} ${error.message}`, { hint: error.hint, cause: error });
      }
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
