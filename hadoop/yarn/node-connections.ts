import { randomBytes } from 'node:crypto';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import { AddressRound } from '../rpc/address-round.ts';
import type { Token } from '../rpc/credentials.ts';
import type { Qop } from '../rpc/digest-md5.ts';
import { IpcConnection } from '../rpc/ipc.ts';
import { decodeMessage } from '../rpc/messages.ts';
import { endpointOfNode } from '../rpc/records.ts';
import { RemoteError } from '../rpc/remote-error.ts';

const PROTOCOL = { name: 'org.apache.hadoop.yarn.api.ContainerManagementProtocolPB', version: 1 };
/** Maximum number of concurrent calls. Additional calls wait. */
const MAX_CONCURRENT_CALLS = 128;
/**
 * While more connections than this are open, a connection is closed as soon as it is idle. Thousands of idle connections would use too much
 * memory.
 */
const MAX_IDLE_CONNECTIONS = 128;

export interface NodeManagerOptions {
  /** NodeManager tokens, keyed by `host:port`. They come from ApplicationMasterClient.nodeTokens. */
  readonly tokens: ReadonlyMap<string, Token>;
  /** Weakest acceptable protection, from HadoopConfiguration.minimumQop. */
  readonly minimumQop: Qop;
  readonly log: Logger;
  readonly callTimeoutMs?: number;
  readonly idleCloseMs?: number;
  /** How long a call to an unreachable NodeManager is retried, in ms. The NodeManager may be restarting. */
  readonly maxWaitMs?: number;
}

interface NodeConnection {
  readonly ipc: IpcConnection;
  calls: number;
  idle: NodeJS.Timeout | null;
}

/**
 * Sends calls to NodeManagers. Opens at most one connection per NodeManager, when the connection is first needed, and closes it when it is
 * idle.
 */
export class NodeConnections {
  readonly #options: Required<NodeManagerOptions>;
  readonly #clientId = randomBytes(16);
  readonly #connections = new Map<string, NodeConnection>();
  readonly #rounds = new Set<AddressRound>();
  readonly #waiting: (() => void)[] = [];
  #busy = 0;
  #closed = false;

  constructor(options: NodeManagerOptions) {
    this.#options = { callTimeoutMs: 20_000, idleCloseMs: 20_000, maxWaitMs: 20_000, ...options };
  }

  /**
   * Sends a call and returns the response. `repeated` is true if there were several attempts. In that case, the NodeManager may have
   * executed the call more than once. Throws a RemoteError if the NodeManager rejects the call, and RPC_UNREACHABLE if the NodeManager is
   * unreachable for `maxWaitMs`.
   */
  async call<T>(
    node: string,
    method: string,
    requestName: string,
    request: object,
    responseName: string,
  ): Promise<{ readonly response: T; readonly repeated: boolean }> {
    await this.#turn();
    const round = new AddressRound([node], this.#options.maxWaitMs);
    this.#rounds.add(round);
    try {
      let tries = 0;
      const outcome = await round.run<T>(async () => {
        tries++;
        try {
          const bytes = await this.#callOnce(node, method, requestName, request);
          return { result: decodeMessage<T>(responseName, bytes) };
        } catch (error) {
          if (!isWorthAnotherTry(error, tries)) {
            throw error;
          }
          this.#options.log.debug({ node, method, error: messageOf(error) }, 'the NodeManager does not respond; trying again');
          return { again: messageOf(error) };
        }
      });
      if ('result' in outcome) {
        return { response: outcome.result, repeated: tries > 1 };
      }
      if (this.#closed) {
        throw closedError();
      }
      throw new TonyError('RPC_UNREACHABLE', `The NodeManager did not respond to ${method}. The last attempt failed: ${outcome.reason}`);
    } finally {
      this.#rounds.delete(round);
      this.#busy--;
      this.#waiting.shift()?.();
    }
  }

  close(): void {
    this.#closed = true;
    for (const round of this.#rounds) {
      round.close();
    }
    for (const [node, connection] of this.#connections) {
      this.#drop(node, connection);
    }
    for (const go of this.#waiting.splice(0)) {
      go();
    }
  }

  async #turn(): Promise<void> {
    while (!this.#closed && this.#busy >= MAX_CONCURRENT_CALLS) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    this.#busy++;
  }

  async #callOnce(node: string, method: string, requestName: string, request: object): Promise<Buffer> {
    if (this.#closed) {
      throw closedError();
    }
    const connection = this.#connect(node);
    connection.calls++;
    try {
      return await connection.ipc.call(method, requestName, request, this.#options.callTimeoutMs);
    } finally {
      connection.calls--;
      if (!connection.ipc.usable) {
        this.#drop(node, connection);
      } else if (connection.calls === 0) {
        this.#rest(node, connection);
      }
    }
  }

  #connect(node: string): NodeConnection {
    const known = this.#connections.get(node);
    if (known?.ipc.usable) {
      if (known.idle !== null) {
        clearTimeout(known.idle);
      }
      known.idle = null;
      return known;
    }
    const token = this.#options.tokens.get(node);
    if (token === undefined) {
      throw new TonyError('CREDENTIALS_INVALID', `The ResourceManager sent no token for the NodeManager ${node}.`);
    }
    const ipc = new IpcConnection({
      endpoint: endpointOfNode(node),
      protocol: PROTOCOL,
      caller: { token, minimumQop: this.#options.minimumQop },
      clientId: this.#clientId,
      connectTimeoutMs: this.#options.callTimeoutMs,
    });
    const connection = { ipc, calls: 0, idle: null };
    this.#connections.set(node, connection);
    return connection;
  }

  #rest(node: string, connection: NodeConnection): void {
    if (this.#connections.size > MAX_IDLE_CONNECTIONS) {
      this.#drop(node, connection);
      return;
    }
    connection.idle = setTimeout(() => this.#drop(node, connection), this.#options.idleCloseMs);
    connection.idle.unref();
  }

  #drop(node: string, connection: NodeConnection): void {
    if (connection.idle !== null) {
      clearTimeout(connection.idle);
    }
    connection.ipc.close();
    if (this.#connections.get(node) === connection) {
      this.#connections.delete(node);
    }
  }
}

/** Returns true if the NodeManager may be restarting, because it is unreachable or reports that it is not ready. */
function isWorthAnotherTry(error: unknown, tries: number): boolean {
  if (error instanceof RemoteError) {
    return error.is('NMNotYetReadyException', 'RetriableException');
  }
  if (!(error instanceof TonyError)) {
    return false;
  }
  // Retry a few times: a NodeManager closes the connection during authentication not only if it does not know the token, but also while it
  // is shutting down. An invalid frame, which may come from an attacker, is treated like a broken connection.
  if (error.code === 'RPC_REFUSED' || error.code === 'RPC_PROTOCOL') {
    return tries < 3;
  }
  return error.code === 'RPC_UNREACHABLE' || error.code === 'RPC_TIMEOUT';
}

function closedError(): TonyError {
  return new TonyError('RPC_CLOSED', 'The connections to the NodeManagers were closed.');
}
