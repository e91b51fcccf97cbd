import type { Server, Socket } from 'node:net';
import type { WireSecurity } from '../../../conf/job.ts';
import { TonyError } from '../../../platform/errors.ts';
import type { Secret } from '../../../platform/secret.ts';
import type { Channel } from '../../connections/channel.ts';
import { IncomingHandshakes } from '../../connections/incoming-handshakes.ts';
import { type Listener, openListener } from '../../connections/listener.ts';
import { rankName } from '../../connections/rank-name.ts';
import { serverKey } from '../protocol/server-key.ts';
import { ServerSession, type ServerTimeouts, type SessionOptions } from './session.ts';
import { WorkerConnection } from './worker-connection.ts';

export interface ParameterServerOptions extends Omit<SessionOptions, keyof ServerTimeouts> {
  readonly generation: number;
  readonly key: Secret;
  /** How to protect the traffic. Default: `none`. All workers must use the same setting. */
  readonly security?: WireSecurity;
  /** The address to listen on, or a server that is already listening. */
  readonly listener: Listener | Server;
  readonly timeouts?: Partial<ServerTimeouts>;
}

const DEFAULT_SERVER_TIMEOUTS: ServerTimeouts = { joinMs: 300_000, replaceMs: 120_000 };

/** The interval in ms at which the server sends `held` to waiting workers. */
export const HOLD_MS = 5000;
const MAX_UNAUTHENTICATED = 64;
/** The maximum number of runs on one server. A run is a call to `fit`, a loop, or a series of custom steps. */
const MAX_RUNS = 64;
/** The number of ended runs to keep. A worker's replacement replays earlier runs and needs their results. */
const MAX_ENDED_RUNS = 4;

/**
 * Holds a part of the weights, applies the gradients pushed by workers, and sends the weights to workers. The weights exist only in memory,
 * so after a failure they can be restored only from checkpoints.
 */
export class ParameterServer {
  readonly #options: ParameterServerOptions;
  readonly #server: Server;
  readonly #sessions = new Map<number, ServerSession>();
  readonly #removed = new Set<number>();
  readonly #handshakes: IncomingHandshakes;
  readonly #connections = new Set<Socket>();
  readonly #holding: NodeJS.Timeout;

  private constructor(options: ParameterServerOptions, server: Server) {
    this.#options = options;
    this.#server = server;
    const { key, generation, worldSize, index, security = 'none' } = options;
    this.#handshakes = new IncomingHandshakes({
      key: serverKey(key).reveal(),
      expected: { generation, worldSize, from: null, to: index, security },
      most: MAX_UNAUTHENTICATED,
      onAccepted: (channel, rank) => this.#serve(channel, rank),
      onRefused: (address, reason) => process.stderr.write(`tony-ts: rejected a connection: ${address} ${reason}\n`),
    });
    server.on('connection', this.#handshakes.accept);
    this.#holding = setInterval(() => {
      for (const session of this.#sessions.values()) {
        session.holdWaiting();
      }
    }, HOLD_MS);
  }

  /** @throws TonyError RING_JOIN_FAILED if the server cannot listen. */
  static async open(options: ParameterServerOptions): Promise<ParameterServer> {
    const { listener } = options;
    return new ParameterServer(options, 'host' in listener ? await openListener(listener) : listener);
  }

  close(): void {
    clearInterval(this.#holding);
    this.#server.close();
    this.#handshakes.close();
    for (const socket of this.#connections) {
      socket.destroy();
    }
    for (const session of this.#sessions.values()) {
      session.dispose();
    }
  }

  #serve(channel: Channel, rank: number): void {
    const { socket } = channel;
    this.#connections.add(socket);
    const connection = new WorkerConnection(channel, { rank, name: rankName(rank, this.#options.names) }, (run) => this.#sessionOf(run));
    connection.start();
    // `start` registered its `close` listener earlier, so the session has already detached the worker.
    socket.once('close', () => {
      this.#connections.delete(socket);
      this.#forget();
    });
  }

  #sessionOf(run: number): ServerSession {
    const existing = this.#sessions.get(run);
    if (existing !== undefined) {
      return existing;
    }
    if (this.#removed.has(run)) {
      throw new TonyError('RING_MISMATCH', `a replacement worker must replay run ${run}, but this server no longer holds the run`);
    }
    if (this.#sessions.size >= MAX_RUNS) {
      throw new TonyError('RING_MISMATCH', `the program has more than ${MAX_RUNS} runs, but a parameter server can hold only ${MAX_RUNS}`);
    }
    const session = new ServerSession({ ...this.#options, ...DEFAULT_SERVER_TIMEOUTS, ...this.#options.timeouts });
    this.#sessions.set(run, session);
    return session;
  }

  /** Frees the memory used by ended runs, but keeps the results of the newest runs. */
  #forget(): void {
    const ended = [...this.#sessions].filter(([, session]) => session.over);
    for (const [, session] of ended) {
      session.retire();
    }
    // The next run starts with the optimizer state from the run that ended last.
    for (const [, session] of ended.slice(0, -1)) {
      session.forgetStates();
    }
    for (const [run, session] of ended.slice(0, -MAX_ENDED_RUNS)) {
      session.dispose();
      this.#sessions.delete(run);
      this.#removed.add(run);
    }
  }
}
