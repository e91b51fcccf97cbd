import type { Server, Socket } from 'node:net';
import type * as tfjs from '@tensorflow/tfjs';
import { messageOf, TonyError } from '../../../platform/errors.ts';
import type { Secret } from '../../../platform/secret.ts';
import type { Storage } from '../../../storage/storage.ts';
import { type Listener, openListener } from '../../ring/ring-connect.ts';
import { encodeFrame, type Frame, type FrameKind } from '../protocol/frame.ts';
import { FrameReader } from '../protocol/frame-reader.ts';
import { type Ask, ask } from '../protocol/messages.ts';
import { serverKey } from '../protocol/server-key.ts';
import { acceptWorker } from './accept-worker.ts';
import { type Client, refusalOf, Session } from './session.ts';

export interface ParameterServerOptions {
  readonly tf: typeof tfjs;
  readonly storage: Storage;
  /** URI of the job's checkpoint folder, the only folder that a worker can have this server read or write; null for none. */
  readonly checkpointDir: string | null;
  readonly index: number;
  /** The number of workers. */
  readonly worldSize: number;
  readonly generation: number;
  /** The key of the ring. */
  readonly key: Secret;
  /** The address or descriptor to listen on, or a listening server. */
  readonly listener: Listener | Server;
  readonly onNotice: (message: string) => void;
  readonly timeouts?: Partial<ServerTimeouts>;
}

export interface ServerTimeouts {
  /** How long to wait for workers that have not joined yet. */
  readonly joinMs: number;
  /** How long to wait for the replacement of a lost worker before the others continue without it. */
  readonly replaceMs: number;
}

export const DEFAULT_SERVER_TIMEOUTS: ServerTimeouts = { joinMs: 300_000, replaceMs: 120_000 };

/** The interval at which waiting workers are told that the server is alive. */
export const HOLD_MS = 5000;
const KEEP_ALIVE_MS = 30_000;
/** The maximum number of connections in their handshake. */
const MAX_STRANGERS = 64;
/** The maximum number of unfinished runs of one program: calls of `fit`, loops, and the custom steps between them. */
const MAX_RUNS = 64;
/** The number of ended runs to keep: a worker that is replaced later passes through them again. */
const MAX_ENDED_RUNS = 4;
const EMPTY_HEAD = Buffer.alloc(0);

/**
 * Holds a part of the weights, applies the gradients that workers push, and sends the weights to workers. It serves until it is closed. The
 * weights exist in memory only; checkpoints are the only persistent copy.
 */
export class ParameterServer {
  readonly #options: ParameterServerOptions;
  readonly #server: Server;
  readonly #sessions = new Map<number, Session>();
  /** Runs that have been removed. */
  readonly #dropped = new Set<number>();
  readonly #strangers = new Set<Socket>();
  readonly #connections = new Set<Socket>();
  readonly #holding: NodeJS.Timeout;

  private constructor(options: ParameterServerOptions, server: Server) {
    this.#options = options;
    this.#server = server;
    server.on('connection', (socket) => this.#greet(socket));
    this.#holding = setInterval(() => {
      for (const session of this.#sessions.values()) {
        session.holdWaiting();
      }
    }, HOLD_MS);
  }

  /** @throws TonyError RING_JOIN_FAILED when the server cannot listen. */
  static async open(options: ParameterServerOptions): Promise<ParameterServer> {
    const { listener } = options;
    return new ParameterServer(options, 'host' in listener ? await openListener(listener) : listener);
  }

  close(): void {
    clearInterval(this.#holding);
    this.#server.close();
    for (const socket of [...this.#strangers, ...this.#connections]) {
      socket.destroy();
    }
    for (const session of this.#sessions.values()) {
      session.dispose();
    }
  }

  #greet(socket: Socket): void {
    if (this.#strangers.size >= MAX_STRANGERS) {
      // Drops the oldest connection: a worker needs milliseconds for its handshake.
      const [slowest] = this.#strangers;
      slowest?.destroy();
    }
    this.#strangers.add(socket);
    const { generation, worldSize, index, key } = this.#options;
    acceptWorker(socket, serverKey(key).reveal(), { generation, worldSize, index })
      .then(
        ({ rank, rest }) => this.#serve(socket, rank, rest),
        (error) => {
          socket.destroy();
          process.stderr.write(`tony-ts: ${socket.remoteAddress ?? 'a stranger'} was turned away: ${messageOf(error)}\n`);
        },
      )
      .finally(() => this.#strangers.delete(socket));
  }

  #serve(socket: Socket, rank: number, rest: Buffer): void {
    this.#connections.add(socket);
    const connection = new WorkerConnection(socket, rank, (run) => this.#sessionOf(run));
    connection.start(rest);
    // Registered after the connection's own listener, so the session has already detached the worker.
    socket.once('close', () => {
      this.#connections.delete(socket);
      this.#forget();
    });
  }

  #sessionOf(run: number): Session {
    const there = this.#sessions.get(run);
    if (there !== undefined) {
      return there;
    }
    if (this.#dropped.has(run)) {
      throw new TonyError('RING_MISMATCH', `run ${run} of the program ended too long ago to be gone through again`);
    }
    if (this.#sessions.size >= MAX_RUNS) {
      throw new TonyError('RING_MISMATCH', `a parameter server serves ${MAX_RUNS} runs at once, not more`);
    }
    const { tf, storage, checkpointDir, index, worldSize, onNotice } = this.#options;
    const timeouts = { ...DEFAULT_SERVER_TIMEOUTS, ...this.#options.timeouts };
    const session = new Session({ tf, storage, checkpointDir, index, worldSize, onNotice, ...timeouts });
    this.#sessions.set(run, session);
    return session;
  }

  /** Keeps only the newest of the ended runs, and of these only their results. */
  #forget(): void {
    const ended = [...this.#sessions].filter(([, session]) => session.over);
    for (const [, session] of ended) {
      session.retire();
    }
    // The next run starts with the optimizer of the newest run.
    for (const [, session] of ended.slice(0, -1)) {
      session.forgetStates();
    }
    for (const [run, session] of ended.slice(0, -MAX_ENDED_RUNS)) {
      session.dispose();
      this.#sessions.delete(run);
      this.#dropped.add(run);
    }
  }
}

/** The connection of one worker in one run. */
class WorkerConnection implements Client {
  readonly rank: number;
  readonly #socket: Socket;
  readonly #sessionOf: (run: number) => Session;
  readonly #reader: FrameReader;
  #session: Session | null = null;
  /** The request of the incoming frame. */
  #message: Ask | null = null;
  /** Memory for gradients, reused because `handle` consumes them before it returns. */
  #gradients = new Uint8Array(0);
  #saidBye = false;

  constructor(socket: Socket, rank: number, sessionOf: (run: number) => Session) {
    this.rank = rank;
    this.#socket = socket;
    this.#sessionOf = sessionOf;
    this.#reader = new FrameReader({
      place: (frame, head) => this.#place(frame, head),
      complete: (frame, head, body) => this.#complete(frame, head, body),
      broken: (reason) => {
        process.stderr.write(`tony-ts: rank ${rank} ${reason}\n`);
        socket.destroy();
      },
    });
  }

  start(rest: Buffer): void {
    const socket = this.#socket;
    socket.setNoDelay(true);
    socket.setKeepAlive(true, KEEP_ALIVE_MS);
    socket.on('error', () => {});
    socket.once('close', () => {
      this.#reader.stop();
      this.#session?.detach(this, this.#saidBye);
    });
    socket.on('data', (chunk: Buffer) => this.#reader.push(chunk));
    this.#reader.push(rest);
  }

  answer(id: number, head: object, body: readonly Uint8Array[] = []): void {
    const bytes = body.reduce((sum, { length }) => sum + length, 0);
    this.#send('answer', id, Buffer.from(JSON.stringify(head)), bytes, body);
  }

  refuse(id: number, { code, message }: TonyError): void {
    this.#send('refusal', id, Buffer.from(JSON.stringify({ code, message })), 0, []);
  }

  hold(id: number): void {
    this.#send('held', id, EMPTY_HEAD, 0, []);
  }

  #send(kind: FrameKind, id: number, head: Uint8Array, bodyBytes: number, body: readonly Uint8Array[]): void {
    if (this.#socket.destroyed) {
      return;
    }
    this.#socket.cork();
    this.#socket.write(encodeFrame(kind, id, head, bodyBytes));
    for (const part of body) {
      this.#socket.write(part);
    }
    this.#socket.uncork();
  }

  #place(frame: Frame, head: unknown): Uint8Array {
    const message = this.#understand(frame, head);
    const bytes = message === null ? 0 : (this.#session?.bodyBytes(message) ?? 0);
    if (bytes !== frame.bodyBytes) {
      throw new Error(`sent ${frame.bodyBytes} bytes with ${message?.ask ?? frame.kind} instead of ${bytes}`);
    }
    if (message?.ask !== 'push') {
      return new Uint8Array(bytes);
    }
    if (this.#gradients.length < bytes) {
      this.#gradients = new Uint8Array(bytes);
    }
    return this.#gradients.subarray(0, bytes);
  }

  #understand(frame: Frame, head: unknown): Ask | null {
    if (frame.kind !== 'ask') {
      return null;
    }
    this.#message ??= ask.parse(head);
    return this.#message;
  }

  #complete(frame: Frame, head: unknown, body: Uint8Array): void {
    if (frame.kind === 'bye') {
      this.#saidBye = true;
      this.#socket.end();
      return;
    }
    const message = this.#understand(frame, head);
    this.#message = null;
    if (message === null) {
      throw new Error(`sent a frame of kind ${frame.kind}`);
    }
    if (message.ask === 'hello' && this.#session === null) {
      try {
        this.#session = this.#sessionOf(message.run);
      } catch (error) {
        this.refuse(frame.id, refusalOf(error));
        return;
      }
      (this.#session.attach(this) as WorkerConnection | undefined)?.replaced();
    }
    const session = this.#session;
    if (session === null) {
      throw new Error(`sent ${message.ask} before hello`);
    }
    if (session.bodyBytes(message) !== frame.bodyBytes) {
      throw new Error(`sent ${frame.bodyBytes} bytes with ${message.ask} instead of ${session.bodyBytes(message)}`);
    }
    session.handle(this, frame.id, message, body).catch((error) => this.refuse(frame.id, refusalOf(error)));
  }

  /** Closes this connection after another process has taken over its rank. */
  replaced(): void {
    this.#reader.stop();
    this.#socket.destroy();
  }
}
