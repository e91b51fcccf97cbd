import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { isOver, type JobInfo } from '../../conf/status/job-info.ts';
import { anySignal } from '../../platform/async/any-signal.ts';
import { pause } from '../../platform/async/backoff.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { isAway } from '../cluster/outage-tolerance.ts';
import type { JobConnection } from '../connections/job-connection.ts';
import { parseTask } from './parse-task.ts';
import { jobEnded, SessionClient } from './session-client.ts';

/** Interval at which the client checks whether the job has ended (ms). */
const CHECK_MS = 10_000;
/** How long after a failed connection to check whether the job has ended (ms). */
const DOUBT_MS = 1_000;
/** Maximum number of sessions that a job accepts for each task. */
const MOST_CONNECTIONS = 64;

export interface ForwardOptions {
  /**
   * Port on this machine, or 0 for any free port. By default, uses the same port number as in the task if that port is free on this
   * machine, and any free port otherwise.
   */
  readonly localPort?: number | undefined;
  /** Called with the reason when a connection fails. */
  readonly onNotice?: (reason: string) => void;
}

/** Port on this machine's loopback address that is forwarded to a port in a task. */
export class ForwardedPort {
  readonly port: number;
  /** Rejects with SESSION_ENDED when the job has ended. Resolves after `close`. */
  readonly ended: Promise<void>;
  readonly #job: JobConnection;
  readonly #server: Server;
  readonly #client: SessionClient;
  readonly #closing = new AbortController();
  readonly #sockets = new Set<Socket>();
  readonly #onNotice: (reason: string) => void;
  #lastNotice = '';
  /** Aborted when a connection fails. */
  #doubt = new AbortController();

  constructor(job: JobConnection, client: SessionClient, server: Server, target: ForwardTarget, onNotice: (reason: string) => void) {
    this.port = (server.address() as AddressInfo).port;
    this.#job = job;
    this.#server = server;
    this.#client = client;
    this.#onNotice = onNotice;
    server.on('connection', (socket) => void this.#serve(socket, target));
    this.ended = this.#watch().finally(() => this.close());
    // Avoid an unhandled rejection if the caller does not await `ended`.
    this.ended.catch(() => {});
  }

  /** Closes all connections, and stops accepting new ones. */
  close(): void {
    this.#closing.abort();
    this.#server.close();
    for (const socket of this.#sockets) {
      socket.destroy();
    }
    this.#client.close();
  }

  async #serve(socket: Socket, target: ForwardTarget): Promise<void> {
    this.#sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => this.#sockets.delete(socket));
    try {
      const session = await this.#client.open(target);
      socket.once('close', () => session.close());
      if (socket.destroyed) {
        session.close();
      }
      await session.converse(socket, socket, socket, () => socket.end());
      this.#lastNotice = '';
    } catch (error) {
      this.#doubt.abort();
      // If the program on this machine has closed its connection, the session is expected to end.
      if (!socket.destroyed) {
        this.#notice(messageOf(error));
      }
    } finally {
      socket.destroySoon();
    }
  }

  /** Reports consecutive failures with the same reason only once, because browsers retry failed requests. */
  #notice(reason: string): void {
    if (!this.#closing.signal.aborted && reason !== this.#lastNotice) {
      this.#lastNotice = reason;
      this.#onNotice(reason);
    }
  }

  async #watch(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      await pause(CHECK_MS - DOUBT_MS, anySignal([signal, this.#doubt.signal]));
      this.#doubt = new AbortController();
      await pause(DOUBT_MS, signal);
      const job = signal.aborted ? null : await this.#observe();
      if (job !== null && isOver(job)) {
        throw jobEnded(job.id, job.state);
      }
    }
  }

  /** Returns null if the cluster is unreachable. */
  async #observe(): Promise<JobInfo | null> {
    try {
      return await this.#job.observe();
    } catch (error) {
      if (isAway(error)) {
        return null;
      }
      throw error;
    }
  }
}

interface ForwardTarget {
  readonly role: string;
  readonly index: number;
  readonly port: number;
}

/**
 * Forwards a port on this machine to a port on which one of the task's processes listens. The process may listen on any of its node's
 * addresses, including the loopback address.
 * @param task `ROLE:INDEX`
 * @throws TonyError USAGE, SESSION_DENIED, SESSION_ENDED, REMOTE_ACCESS_DENIED, LISTEN_FAILED
 */
export async function forwardPort(job: JobConnection, task: string, port: number, options: ForwardOptions = {}): Promise<ForwardedPort> {
  const { role, index } = parseTask(task);
  const client = new SessionClient(job);
  try {
    await client.check({ role, index });
    const server = await listen(port, options.localPort);
    return new ForwardedPort(job, client, server, { role, index, port }, options.onNotice ?? (() => {}));
  } catch (error) {
    client.close();
    throw error;
  }
}

async function listen(port: number, localPort: number | undefined): Promise<Server> {
  try {
    return await listenOn(localPort ?? port);
  } catch (error) {
    if (localPort === undefined) {
      return await listenOn(0);
    }
    throw new TonyError('LISTEN_FAILED', `Port ${localPort} on 127.0.0.1 cannot be opened: ${messageOf(error)}.`, {
      hint: 'Choose another local port, or 0 for any free port.',
      cause: error,
    });
  }
}

async function listenOn(port: number): Promise<Server> {
  const server = createServer({ allowHalfOpen: true });
  server.maxConnections = MOST_CONNECTIONS;
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return server;
}
