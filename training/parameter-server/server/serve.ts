import type { Server, Socket } from 'node:net';
import type * as tfjs from '@tensorflow/tfjs';
import type { WireSecurity } from '../../../conf/job.ts';
import type { Channel } from '../../../contract/connections/channel.ts';
import { IncomingHandshakes } from '../../../contract/connections/incoming-handshakes.ts';
import { type Listener, openListener } from '../../../contract/connections/listener.ts';
import { rankName } from '../../../contract/connections/rank-name.ts';
import { type Report, rankNames, type TaskContext } from '../../../contract/process/task-context.ts';
import { messageOf, TonyError } from '../../../platform/errors.ts';
import { Secret } from '../../../platform/secret.ts';
import type { Storage } from '../../../storage/storage.ts';
import { type ServerFrame, type ServerFrameKind, sendFrame } from '../protocol/frame.ts';
import { ServerFrameReader } from '../protocol/frame-reader.ts';
import { serverKey } from '../protocol/keys.ts';
import { ask, type ServerAsk } from '../protocol/messages.ts';
import { ServerSession, type ServerTimeouts, type SessionOptions } from './session.ts';
import type { Client } from './worker-request.ts';

/** The server's side of the connection to one worker in one run. */
class WorkerConnection implements Client {
  readonly rank: number;
  readonly #name: string;
  readonly #channel: Channel;
  readonly #sessionOf: (run: number) => ServerSession;
  readonly #reader: ServerFrameReader;
  #session: ServerSession | null = null;
  /** The request whose body is arriving. */
  #message: ServerAsk | null = null;
  /** The buffer for gradients. All pushes reuse it, because `handle` has finished with the gradients when it returns. */
  #gradients = new Uint8Array(0);
  #saidBye = false;

  constructor(channel: Channel, { rank, name }: { rank: number; name: string }, sessionOf: (run: number) => ServerSession) {
    this.rank = rank;
    this.#name = name;
    this.#channel = channel;
    this.#sessionOf = sessionOf;
    this.#reader = new ServerFrameReader({
      place: (frame, head) => this.#place(frame, head),
      complete: (frame, head, body) => this.#complete(frame, head, body),
      broken: (reason) => {
        process.stderr.write(`tony-ts: ${name} ${reason}\n`);
        channel.socket.destroy();
      },
    });
  }

  start(): void {
    const { socket } = this.#channel;
    socket.setNoDelay(true);
    let isReported = false;
    this.#channel.watch((cause, code) => {
      if (code === 'WIRE_INVALID' && !isReported) {
        isReported = true;
        process.stderr.write(`tony-ts: ${code}: ${this.#name} ${cause}\n`);
      }
    });
    socket.once('close', () => {
      this.#reader.stop();
      this.#session?.detach(this, this.#saidBye);
    });
    this.#channel.read(this.#reader);
  }

  answer(id: number, head: object, body: readonly Uint8Array[] = []): void {
    this.#send('answer', id, head, body);
  }

  refuse(id: number, error: unknown): void {
    const { code, message } = error instanceof TonyError ? error : new TonyError('RING_MISMATCH', messageOf(error));
    this.#send('refusal', id, { code, message });
  }

  hold(id: number): void {
    this.#send('held', id, null);
  }

  #send(kind: ServerFrameKind, id: number, head: object | null, body: readonly Uint8Array[] = []): void {
    if (!this.#channel.socket.destroyed) {
      sendFrame(this.#channel, kind, id, head, body);
    }
  }

  #place(frame: ServerFrame, head: unknown): Uint8Array {
    const message = this.#understand(frame, head);
    const bytes = message === null ? 0 : (this.#session?.bodyBytes(message) ?? 0);
    if (bytes !== frame.bodyBytes) {
      throw new Error(`sent ${message?.ask ?? frame.kind} with ${frame.bodyBytes} bytes instead of ${bytes}`);
    }
    if (message?.ask !== 'push') {
      return new Uint8Array(bytes);
    }
    if (this.#gradients.length < bytes) {
      this.#gradients = new Uint8Array(bytes);
    }
    return this.#gradients.subarray(0, bytes);
  }

  #understand(frame: ServerFrame, head: unknown): ServerAsk | null {
    if (frame.kind !== 'ask') {
      return null;
    }
    this.#message ??= ask.parse(head);
    return this.#message;
  }

  #complete(frame: ServerFrame, head: unknown, body: Uint8Array): void {
    if (frame.kind === 'bye') {
      this.#saidBye = true;
      this.#channel.socket.end();
      return;
    }
    const message = this.#understand(frame, head);
    this.#message = null;
    if (message === null) {
      throw new Error(`sent an unexpected frame of kind ${frame.kind}`);
    }
    if (message.ask === 'hello' && this.#session === null) {
      try {
        this.#session = this.#sessionOf(message.run);
      } catch (error) {
        this.refuse(frame.id, error);
        return;
      }
      (this.#session.attach(this) as WorkerConnection | undefined)?.replaced();
    }
    const session = this.#session;
    if (session === null) {
      throw new Error(`sent ${message.ask} before hello`);
    }
    if (session.bodyBytes(message) !== frame.bodyBytes) {
      throw new Error(`sent ${message.ask} with ${frame.bodyBytes} bytes instead of ${session.bodyBytes(message)}`);
    }
    session.handle(this, frame.id, message, body).catch((error) => this.refuse(frame.id, error));
  }

  /** Closes this connection because another process has joined with the same rank. */
  replaced(): void {
    this.#reader.stop();
    this.#channel.socket.destroy();
  }
}

interface ParameterServerOptions extends Omit<SessionOptions, keyof ServerTimeouts> {
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
const HOLD_MS = 5000;
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

/** Returns true if this task is one of its job's parameter servers. */
export function servesParameters({ taskRank, index, listener, parameterServers }: TaskContext): boolean {
  const address = parameterServers[index];
  return taskRank === null && listener !== null && address?.host === listener.host && address.port === listener.port;
}

/** Runs this task's parameter server until the job stops the task. Never returns to the program. */
export async function serveParameters(
  task: TaskContext,
  world: {
    readonly tf: typeof tfjs;
    readonly storage: Storage;
    readonly report: (report: Report) => void;
    readonly timeouts?: Partial<ServerTimeouts>;
  },
): Promise<never> {
  const { index, taskWorldSize: worldSize, generation, ringKey, listener, wire } = task;
  if (listener === null) {
    throw new TonyError('TASK_FILE_INVALID', 'the task file does not contain a port for this parameter server');
  }
  const server = await ParameterServer.open({
    ...{ index, worldSize, generation, listener },
    security: wire.security,
    names: rankNames(task),
    tf: world.tf,
    storage: world.storage,
    checkpointDir: task.checkpoint.dir,
    key: new Secret(Buffer.from(ringKey, 'base64')),
    onNotice: (message) => {
      process.stderr.write(`tony-ts: ${message}\n`);
      world.report({ type: 'notice', message });
    },
    ...(world.timeouts === undefined ? {} : { timeouts: world.timeouts }),
  });
  return await new Promise<never>(() => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.on(signal, () => {
        server.close();
        process.exit(0);
      });
    }
  });
}
