import type * as tfjs from '@tensorflow/tfjs';
import { messageOf, TonyError } from '../../conf/errors.ts';
import type { Storage } from '../../storage/storage.ts';
import type { StoredTensor, TrainingPosition } from '../checkpoint-format.ts';
import { CheckpointStore, type OpenedCheckpoint } from '../checkpoint-store.ts';
import { numbersOf } from './layout.ts';
import type { Ask, StoredShape } from './messages.ts';
import { ServedShard, sizeOf } from './served-shard.ts';
import { StalenessClock } from './staleness-clock.ts';

/** How a session speaks to one worker. */
export interface Client {
  readonly rank: number;
  answer(id: number, head: object, body?: readonly Uint8Array[]): void;
  refuse(id: number, error: TonyError): void;
  /** The answer takes its time. */
  hold(id: number): void;
}

export interface SessionOptions {
  readonly tf: typeof tfjs;
  readonly storage: Storage;
  /** This server's number; 0 keeps what is of the run as a whole. */
  readonly index: number;
  readonly worldSize: number;
  /** For how long a worker that is lost, or not there yet, is waited for. */
  readonly replaceMs: number;
  readonly joinMs: number;
  readonly onNotice: (message: string) => void;
}

/** An ask whose time has not come. */
interface Waiting {
  readonly client: Client;
  readonly id: number;
  readonly isDue: () => boolean;
  readonly answer: () => void;
}

const MAX_MAIL_NAMES = 256;
const NO_BYTES = new Uint8Array(0);

/** One run of the program, on one parameter server: all of its state. Knows nothing of sockets; everything it does is in one thread. */
export class Session {
  readonly #options: SessionOptions;
  readonly #clients = new Map<number, Client>();
  readonly #ended = new Set<number>();
  #state: 'empty' | 'prepared' | 'open' = 'empty';
  #shard: ServedShard | null = null;
  /** Asks to prepare: the last one counts. */
  #prepares = 0;
  #clock: StalenessClock;
  #waiting: Waiting[] = [];
  readonly #mail = new Map<string, { readonly tensors: readonly StoredShape[]; readonly body: Uint8Array }>();
  /** Copies for checkpoints, by step: one that is being written, one that is to be written after it. */
  readonly #captures = new Map<number, Promise<StoredTensor[]>>();
  #start: TrainingPosition | null = null;
  readonly #positions: (TrainingPosition | null)[];
  readonly #signalled = new Set<number>();
  readonly #timers = new Map<number, NodeJS.Timeout>();
  /** The last checkpoint is being taken: nothing changes any more. */
  #closing = false;
  #retired = false;
  #sealed: { readonly failed: boolean } | null = null;

  constructor(options: SessionOptions) {
    this.#options = options;
    this.#clock = new StalenessClock(options.worldSize, null);
    this.#positions = new Array<TrainingPosition | null>(options.worldSize).fill(null);
  }

  /** A worker has come, in place of whoever had its rank before. */
  attach(client: Client): Client | undefined {
    const before = this.#clients.get(client.rank);
    this.#clients.set(client.rank, client);
    this.#ended.delete(client.rank);
    this.#waiting = this.#waiting.filter((each) => each.client !== before);
    return before;
  }

  /** Its connection has ended; `well`: as it said. */
  detach(client: Client, well: boolean): void {
    if (this.#clients.get(client.rank) !== client) {
      return;
    }
    this.#clients.delete(client.rank);
    this.#waiting = this.#waiting.filter((each) => each.client !== client);
    if (well) {
      this.#ended.add(client.rank);
      if (this.#clock.stateOf(client.rank) === 'live') {
        // It has left its run early, on its own.
        this.#clock.finish(client.rank);
      }
    } else if (this.#clock.stateOf(client.rank) === 'live') {
      this.#clock.lose(client.rank);
      this.#giveUpIn(client.rank, this.#options.replaceMs);
    }
    this.#release();
  }

  /** All workers have said goodbye. */
  get over(): boolean {
    return this.#ended.size === this.#options.worldSize;
  }

  /**
   * Keeps only what a worker needs that comes back after all have ended: its process may have failed behind its run, and whoever replaces it
   * passes through the run again. A run that nobody has closed may go on.
   */
  retire(): void {
    this.#captures.clear();
    if (this.#closing && !this.#retired) {
      this.#retired = true;
      this.#shard?.retire();
    }
  }

  /** Tells those who wait that they are not forgotten. */
  holdWaiting(): void {
    for (const { client, id } of this.#waiting) {
      client.hold(id);
    }
  }

  /**
   * How many bytes go with an ask.
   * @throws TonyError when it comes at the wrong time.
   */
  bodyBytes(message: Ask): number {
    switch (message.ask) {
      case 'prepare':
        return message.restore === null ? numbersOf(message.pieces) * 4 : 0;
      case 'push':
        return this.#open().bytesOf(message.present);
      case 'put':
        return message.tensors.reduce((sum, { bytes }) => sum + bytes, 0);
      default:
        return 0;
    }
  }

  /** @param body not used any more when this returns, but that of `put` and `prepare`. */
  async handle(client: Client, id: number, message: Ask, body: Uint8Array): Promise<void> {
    switch (message.ask) {
      case 'hello':
        client.answer(id, { state: this.#state });
        return;
      case 'prepare':
        // A server may read its share for longer than a worker bears silence.
        await this.#holding(client, id, this.#prepare(message, body));
        client.answer(id, {});
        return;
      case 'open':
        this.#openAll();
        client.answer(id, {});
        return;
      case 'join':
        this.#when(
          client,
          id,
          () => this.#state === 'open',
          () => this.#join(client, id),
        );
        return;
      case 'pull':
        this.#open();
        this.#begin(client.rank, message.now);
        this.#when(
          client,
          id,
          () => message.now || this.#clock.mayBegin(client.rank),
          () => this.#answerWeights(client, id),
        );
        this.#release();
        return;
      case 'push':
        this.#push(client, id, message, body);
        return;
      case 'signal':
        this.#note(client.rank, message.signal);
        client.answer(id, { signalled: this.#signalled.size });
        return;
      case 'put':
        this.#put(message, body);
        client.answer(id, {});
        this.#release();
        return;
      case 'get':
        this.#when(
          client,
          id,
          () => this.#mail.has(message.name),
          () => {
            const mail = this.#mail.get(message.name);
            client.answer(id, { tensors: mail?.tensors ?? [] }, [mail?.body ?? NO_BYTES]);
          },
        );
        return;
      case 'positions':
        client.answer(id, { positions: this.#positions });
        return;
      case 'capture':
        client.answer(id, { iterations: await this.#holding(client, id, this.#capture(message)) });
        return;
      case 'write':
        client.answer(id, { shard: await this.#holding(client, id, this.#write(message)) });
        return;
      case 'finish':
        this.#positions[client.rank] = message.position ?? this.#positions[client.rank] ?? null;
        this.#clock.finish(client.rank);
        this.#release();
        this.#when(
          client,
          id,
          () => this.#clock.over,
          () => {
            this.#closing = true;
            client.answer(id, {});
          },
        );
        return;
      case 'seal':
        this.#sealed = { failed: message.failed };
        this.#start = message.position ?? this.#start;
        client.answer(id, {});
        this.#release();
        return;
      case 'sealed':
        this.#when(
          client,
          id,
          () => this.#sealed !== null,
          () => client.answer(id, { failed: this.#sealed?.failed ?? false }),
        );
        return;
    }
  }

  dispose(): void {
    for (const timer of this.#timers.values()) {
      clearTimeout(timer);
    }
    this.#timers.clear();
    this.#waiting = [];
    this.#mail.clear();
    this.#captures.clear();
    this.#shard?.dispose();
    this.#shard = null;
  }

  async #prepare(message: Extract<Ask, { ask: 'prepare' }>, body: Uint8Array): Promise<void> {
    if (this.#state === 'open') {
      throw new TonyError('RING_MISMATCH', 'the weights are there already');
    }
    for (const { variable, from, count } of message.pieces) {
      const described = message.variables[variable];
      if (described === undefined || from + count > sizeOf(described.shape)) {
        throw new TonyError('RING_MISMATCH', `there is no such piece of variable ${variable}`);
      }
    }
    const { tf, storage, worldSize } = this.#options;
    const { variables, pieces, optimizer, restore } = message;
    this.#prepares++;
    const turn = this.#prepares;
    const shard = new ServedShard(tf, { variables, pieces, optimizer });
    try {
      if (restore === null) {
        shard.assign(new Float32Array(body.buffer, body.byteOffset, body.length / 4));
      } else {
        const store = new CheckpointStore(storage, restore.dir);
        // What the chief has parsed is sent back to where it came from.
        const checkpoint = restore.checkpoint as OpenedCheckpoint;
        const names = shard.namesIn(checkpoint.manifest.tensors.map(({ name }) => name));
        shard.restore(await store.readTensors(checkpoint, names), restore.iterations, checkpoint.uri);
      }
      if (turn !== this.#prepares) {
        throw new TonyError('RING_MISMATCH', 'another chief has taken over');
      }
    } catch (error) {
      shard.dispose();
      throw error;
    }
    this.#shard?.dispose();
    this.#shard = shard;
    this.#start = message.position;
    this.#clock = new StalenessClock(worldSize, message.staleness);
    this.#state = 'prepared';
  }

  #openAll(): void {
    if (this.#state === 'empty') {
      throw new TonyError('RING_MISMATCH', 'nobody has said what this parameter server holds');
    }
    if (this.#state === 'prepared') {
      this.#state = 'open';
      for (let rank = 0; rank < this.#options.worldSize; rank++) {
        this.#giveUpIn(rank, this.#options.joinMs);
      }
    }
    this.#release();
  }

  #open(): ServedShard {
    if (this.#shard === null || this.#state !== 'open') {
      throw new TonyError('RING_MISMATCH', 'the weights are not there yet');
    }
    return this.#shard;
  }

  #join(client: Client, id: number): void {
    const { variables, pieces } = this.#open().description;
    const isSealed = this.#sealed !== null;
    client.answer(id, {
      shapes: variables.map(({ shape }) => shape),
      pieces,
      position: isSealed ? this.#start : (this.#positions[client.rank] ?? this.#start),
      sealed: isSealed,
    });
  }

  /** A worker that pulls in order to step counts from now on: those who have waited for it begin with the weights that it gets. */
  #begin(rank: number, now: boolean): void {
    if (!now && this.#clock.stateOf(rank) !== 'live') {
      clearTimeout(this.#timers.get(rank));
      this.#timers.delete(rank);
      this.#clock.join(rank);
    }
  }

  #push(client: Client, id: number, message: Extract<Ask, { ask: 'push' }>, body: Uint8Array): void {
    const shard = this.#open();
    if (message.present.length !== shard.description.pieces.length) {
      throw new TonyError('RING_MISMATCH', `${message.present.length} pieces were pushed instead of ${shard.description.pieces.length}`);
    }
    if (!this.#closing) {
      if (message.learningRate !== undefined) {
        shard.setLearningRate(message.learningRate);
      }
      if (message.hasExamples) {
        shard.apply(new Float32Array(body.buffer, body.byteOffset, body.length / 4), message.present);
      }
      this.#positions[client.rank] = message.position ?? this.#positions[client.rank] ?? null;
    }
    this.#note(client.rank, message.signal ?? 0);
    this.#clock.finishStep(client.rank);
    // Together with those who have waited for this one: they all begin with the same weights.
    this.#when(
      client,
      id,
      () => this.#clock.mayBegin(client.rank),
      () => this.#answerWeights(client, id),
    );
    this.#release();
  }

  #note(rank: number, signal: number): void {
    if (signal > 0) {
      this.#signalled.add(rank);
    }
  }

  #put(message: Extract<Ask, { ask: 'put' }>, body: Uint8Array): void {
    if (this.#mail.size >= MAX_MAIL_NAMES && !this.#mail.has(message.name)) {
      throw new TonyError('RING_MISMATCH', `more than ${MAX_MAIL_NAMES} broadcasts are too many for parameter servers`);
    }
    this.#mail.set(message.name, { tensors: message.tensors, body });
  }

  #answerWeights(client: Client, id: number): void {
    const shard = this.#open();
    const head = { iterations: shard.steps, signalled: this.#signalled.size };
    client.answer(id, head, shard.weights().map(bytesOf));
  }

  async #capture({ step, writing }: Extract<Ask, { ask: 'capture' }>): Promise<number> {
    const shard = this.#open();
    if (this.#retired) {
      throw new TonyError('RING_MISMATCH', 'this run is over: there is nothing to keep of it');
    }
    const iterations = shard.steps;
    for (const older of this.#captures.keys()) {
      if (older === step || older !== writing) {
        this.#captures.delete(older);
      }
    }
    const captured = shard.capture(this.#options.index === 0);
    this.#captures.set(step, captured);
    await captured;
    return iterations;
  }

  async #write({ step, dir, pending, index, count }: Extract<Ask, { ask: 'write' }>): Promise<unknown> {
    const tensors = await this.#captures.get(step);
    if (tensors === undefined) {
      throw new TonyError('CHECKPOINT_FAILED', `what there was at step ${step} has been dropped for something newer`);
    }
    return await new CheckpointStore(this.#options.storage, dir).writeShard(pending, { index, count }, tensors);
  }

  /** The client hears that the server lives until the work is done. */
  async #holding<T>(client: Client, id: number, work: Promise<T>): Promise<T> {
    const waiting: Waiting = { client, id, isDue: () => false, answer: () => {} };
    this.#waiting.push(waiting);
    try {
      return await work;
    } finally {
      this.#waiting = this.#waiting.filter((each) => each !== waiting);
    }
  }

  /** Answers now or, held back, as soon as `isDue`. */
  #when(client: Client, id: number, isDue: () => boolean, answer: () => void): void {
    if (isDue()) {
      answer();
    } else {
      this.#waiting.push({ client, id, isDue, answer });
    }
  }

  #release(): void {
    const due = this.#waiting.filter(({ isDue }) => isDue());
    if (due.length > 0) {
      this.#waiting = this.#waiting.filter((each) => !due.includes(each));
      for (const { answer } of due) {
        answer();
      }
    }
  }

  #giveUpIn(rank: number, ms: number): void {
    clearTimeout(this.#timers.get(rank));
    const timer = setTimeout(() => {
      this.#timers.delete(rank);
      const state = this.#clock.stateOf(rank);
      if (state === 'lost' || state === 'awaited') {
        this.#options.onNotice(`rank ${rank} has been away for ${ms / 1000} s: the others go on without it`);
        this.#clock.giveUp(rank);
        this.#release();
      }
    }, ms);
    this.#timers.set(rank, timer);
  }
}

function bytesOf(numbers: Float32Array): Uint8Array {
  return new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength);
}

/** What a worker is told when its ask fails. */
export function refusalOf(error: unknown): TonyError {
  return error instanceof TonyError ? error : new TonyError('RING_MISMATCH', messageOf(error));
}
