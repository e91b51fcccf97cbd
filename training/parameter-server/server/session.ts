import type * as tfjs from '@tensorflow/tfjs';
import { messageOf, TonyError } from '../../../platform/errors.ts';
import type { Storage } from '../../../storage/storage.ts';
import type { StoredTensor, TrainingPosition } from '../../checkpoint/checkpoint-format.ts';
import { CheckpointStore } from '../../checkpoint/checkpoint-store.ts';
import type { Ask, StoredShape } from '../protocol/messages.ts';
import { ServedShard } from './served-shard.ts';
import { StalenessClock } from './staleness-clock.ts';

/** A session's connection to one worker. */
export interface Client {
  readonly rank: number;
  answer(id: number, head: object, body?: readonly Uint8Array[]): void;
  refuse(id: number, error: TonyError): void;
  /** Tells the worker that the answer is delayed. */
  hold(id: number): void;
}

export interface SessionOptions {
  readonly tf: typeof tfjs;
  readonly storage: Storage;
  /** URI of the job's checkpoint folder, the only folder that a worker can have this server read or write; null for none. */
  readonly checkpointDir: string | null;
  /** The index of this server. Server 0 holds the state of the run as a whole. */
  readonly index: number;
  readonly worldSize: number;
  /** How long to wait for the replacement of a lost worker, or for a worker that has not joined yet (`joinMs`). */
  readonly replaceMs: number;
  readonly joinMs: number;
  readonly onNotice: (message: string) => void;
}

/** A request whose answer is delayed. */
interface Waiting {
  readonly client: Client;
  readonly id: number;
  readonly isDue: () => boolean;
  readonly answer: () => void;
  /** True if the client cannot push before the answer, and steps of other workers decide when it comes. */
  readonly inStep: boolean;
}

const MAX_MAIL_NAMES = 256;
const NO_BYTES = new Uint8Array(0);

/** The complete state of one run of the program on one parameter server. It is independent of sockets and works in one thread. */
export class Session {
  readonly #options: SessionOptions;
  readonly #clients = new Map<number, Client>();
  readonly #ended = new Set<number>();
  #state: 'empty' | 'prepared' | 'open' = 'empty';
  #shard: ServedShard | null = null;
  /** The number of `prepare` requests; the last one applies. */
  #prepares = 0;
  /** Steps that the chief's process has taken in this run. */
  #chiefSteps = 0;
  #clock: StalenessClock;
  #waiting: Waiting[] = [];
  readonly #mail = new Map<string, { readonly tensors: readonly StoredShape[]; readonly body: Uint8Array }>();
  /** Copies for checkpoints, by step: the one that is being written and the next one. */
  readonly #captures = new Map<number, Promise<StoredTensor[]>>();
  #start: TrainingPosition | null = null;
  readonly #positions: (TrainingPosition | null)[];
  readonly #signalled = new Set<number>();
  #reason: string | null = null;
  /** By rank, the iteration of its last `meet`. */
  readonly #met = new Map<number, number>();
  /** The iteration of the chief's last `part`. */
  #parted = -1;
  readonly #timers = new Map<number, NodeJS.Timeout>();
  /** The last checkpoint is being taken; the state no longer changes. */
  #closing = false;
  #retired = false;
  #sealed: { readonly failed: boolean } | null = null;

  constructor(options: SessionOptions) {
    this.#options = options;
    this.#clock = new StalenessClock(options.worldSize, null);
    this.#positions = new Array<TrainingPosition | null>(options.worldSize).fill(null);
  }

  /** Adds a worker, which replaces the previous client of its rank. @returns the previous client. */
  attach(client: Client): Client | undefined {
    const before = this.#clients.get(client.rank);
    this.#clients.set(client.rank, client);
    this.#ended.delete(client.rank);
    this.#waiting = this.#waiting.filter((each) => each.client !== before);
    return before;
  }

  /** Handles the end of a connection; `well`: the worker announced it. */
  detach(client: Client, well: boolean): void {
    if (this.#clients.get(client.rank) !== client) {
      return;
    }
    this.#clients.delete(client.rank);
    this.#waiting = this.#waiting.filter((each) => each.client !== client);
    if (well) {
      this.#ended.add(client.rank);
      if (this.#clock.stateOf(client.rank) === 'live') {
        // The worker left the run early on purpose.
        this.#clock.finish(client.rank);
      }
    } else if (this.#clock.stateOf(client.rank) === 'live') {
      this.#clock.lose(client.rank);
      this.#giveUpIn(client.rank, this.#options.replaceMs);
    }
    this.#release();
  }

  /** True once all workers have announced the end of their connections. */
  get over(): boolean {
    return this.#ended.size === this.#options.worldSize;
  }

  /**
   * After all workers have ended, keeps only what a returning worker needs: a process may fail after its run, and its replacement passes
   * through the run again. A run that is not closed may continue and keeps its state.
   */
  retire(): void {
    this.#captures.clear();
    if (this.#closing && !this.#retired) {
      this.#retired = true;
      this.#shard?.retire();
    }
  }

  /** Frees the state that only a worker before the start of the next run needs. */
  forgetStates(): void {
    if (this.#retired) {
      this.#shard?.forgetStates();
    }
  }

  /** Tells waiting workers that the server is alive. */
  holdWaiting(): void {
    for (const { client, id } of this.#waiting) {
      client.hold(id);
    }
  }

  /**
   * The number of body bytes that a request must have.
   * @throws TonyError when the request comes at the wrong time.
   */
  bodyBytes(message: Ask): number {
    switch (message.ask) {
      case 'prepare':
        return this.#newShard(null).numbersOf(message.addition, message.restore === null) * 4;
      case 'add':
        return this.#open().numbersOf(message.addition, true) * 4;
      case 'push':
        return this.#open().bytesOf(message.present);
      case 'assign':
        return this.#open().bytesOf(message.variables);
      case 'put':
        return message.tensors.reduce((sum, { bytes }) => sum + bytes, 0);
      default:
        return 0;
    }
  }

  /** @param body not used after the call returns, except for `put` and `prepare`. */
  async handle(client: Client, id: number, message: Ask, body: Uint8Array): Promise<void> {
    switch (message.ask) {
      case 'hello':
        client.answer(id, { state: this.#state });
        return;
      case 'prepare':
        // Reading the share from a checkpoint may take longer than a worker tolerates silence.
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
      case 'enter':
        this.#enter(client, id, message);
        return;
      case 'add':
        this.#open().add(message.addition, numbersIn(body), true);
        client.answer(id, {});
        this.#release();
        return;
      case 'pull':
        this.#open();
        this.#begin(client.rank, message.now);
        this.#when(
          client,
          id,
          () => message.now || this.#clock.mayBegin(client.rank),
          () => this.#answerWeights(client, id, 0, message.all),
          true,
        );
        this.#release();
        return;
      case 'assign':
        if (!this.#closing) {
          this.#open().assign(message.variables, numbersIn(body), client.rank);
        }
        client.answer(id, {});
        return;
      case 'push':
        this.#push(client, id, message, body);
        return;
      case 'signal':
        this.#note(client.rank, message.signal);
        this.#reason ??= message.reason ?? null;
        client.answer(id, { signalled: this.#signalled.size, reason: this.#reason });
        return;
      case 'meet':
        this.#meet(client, id, message);
        return;
      case 'part':
        this.#parted = Math.max(this.#parted, message.step);
        client.answer(id, {});
        this.#release();
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
      case 'state': {
        const { head, numbers } = this.#open().stateFor(client.rank, message.optimizer);
        client.answer(id, { state: head }, numbers.map(bytesOf));
        return;
      }
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
    const { worldSize } = this.#options;
    const { addition, restore, staleness } = message;
    this.#prepares++;
    const turn = this.#prepares;
    const shard = this.#newShard(staleness);
    try {
      shard.add(addition, numbersIn(body), restore === null);
      if (restore !== null) {
        const store = this.#checkpointsIn(restore.dir);
        const checkpoint = await store.openCheckpoint(restore.step);
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
    this.#clock = new StalenessClock(worldSize, staleness);
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
    this.#open();
    const isSealed = this.#sealed !== null;
    const position = isSealed ? this.#start : (this.#positions[client.rank] ?? this.#start);
    client.answer(id, { position, sealed: isSealed, steps: this.#clock.stepsOf(client.rank) });
  }

  #newShard(staleness: number | null): ServedShard {
    return new ServedShard(this.#options.tf, staleness === 0);
  }

  #enter(client: Client, id: number, message: Extract<Ask, { ask: 'enter' }>): void {
    const shard = this.#open();
    const ids = message.variables.map((_, index) => message.first + index);
    const { index, variables } = message.optimizer;
    const isKnown = () => shard.knows(ids, index, variables);
    const answer = () => {
      try {
        if (isKnown()) {
          this.#answerEntered(client, id, message, ids);
        } else if (message.chief) {
          client.answer(id, { known: false, pieces: [], size: shard.size });
        } else {
          throw this.#unusedByChief(client.rank, message);
        }
      } catch (error) {
        client.refuse(id, refusalOf(error));
      }
    };
    if (message.chief) {
      this.#chiefSteps = message.step;
    }
    const isChiefBeyond = () => this.#chiefSteps > message.step || this.#ended.has(0) || this.#clock.stateOf(0) === 'finished';
    this.#when(client, id, () => message.chief || isKnown() || isChiefBeyond(), answer, true);
    this.#release();
  }

  #unusedByChief(rank: number, { variables, first, step }: Extract<Ask, { ask: 'enter' }>): TonyError {
    const shard = this.#open();
    const [name] = variables.flatMap(({ name }, index) => (first + index < shard.count ? [] : [name]));
    const what = name === undefined ? 'an optimizer' : `the variable ${name}`;
    return new TonyError('RING_MISMATCH', `rank ${rank} trains ${what} in its step ${step}; rank 0 has taken that step without it`, {
      hint: 'Give every step the variables of all of them: those that the loss does not depend on are left alone.',
    });
  }

  #answerEntered(client: Client, id: number, message: Extract<Ask, { ask: 'enter' }>, ids: readonly number[]): void {
    const shard = this.#open();
    for (const [index, { name, shape }] of message.variables.entries()) {
      const { described } = shard.variable(message.first + index);
      if (String(described.shape) !== String(shape) || withoutNumbers(described.name) !== withoutNumbers(name)) {
        const [there, here] = [`${described.name} [${described.shape}]`, `${name} [${shape}]`];
        throw new TonyError('RING_MISMATCH', `variable ${message.first + index} is ${there} on rank 0 and ${here} on rank ${client.rank}`, {
          hint: 'Every rank must train the same variables in the same order.',
        });
      }
    }
    const { className } = shard.optimizer(message.optimizer.index).description;
    if (className !== message.optimizer.className) {
      const both = `${className} on rank 0 and ${message.optimizer.className} on rank ${client.rank}`;
      throw new TonyError('RING_MISMATCH', `optimizer ${message.optimizer.index} is ${both}`);
    }
    const entered = ids.map((each) => shard.variable(each)).filter(({ piece }) => piece !== null);
    const numbers = entered.map((each) => each.enter(client.rank));
    client.answer(id, { known: true, pieces: entered.map(({ piece }) => piece), size: shard.size }, numbers.map(bytesOf));
    shard.forget(this.#ranksThatCount());
  }

  /** Ranks that may still pull or push. */
  #ranksThatCount(): number[] {
    return Array.from({ length: this.#options.worldSize }, (_, rank) => rank).filter((rank) => {
      const state = this.#clock.stateOf(rank);
      return state !== 'finished' && state !== 'given-up';
    });
  }

  /** Counts a worker from its first pull for a step; workers that waited for it begin with the same weights. */
  #begin(rank: number, now: boolean): void {
    if (!now && this.#clock.stateOf(rank) !== 'live') {
      clearTimeout(this.#timers.get(rank));
      this.#timers.delete(rank);
      this.#clock.join(rank);
    }
  }

  #push(client: Client, id: number, message: Extract<Ask, { ask: 'push' }>, body: Uint8Array): void {
    const shard = this.#open();
    if (!this.#closing) {
      if (message.hasExamples) {
        shard.apply(message.optimizer, message.present, numbersIn(body), message.learningRate);
      }
      this.#positions[client.rank] = message.position ?? this.#positions[client.rank] ?? null;
    }
    this.#note(client.rank, message.signal ?? 0);
    this.#clock.finishStep(client.rank);
    if (client.rank === 0) {
      this.#chiefSteps++;
    }
    if (message.dropped !== undefined && !this.#retired) {
      shard.drop(client.rank, message.dropped.variables, message.dropped.optimizers);
      shard.forget(this.#ranksThatCount());
    }
    // Answered together with the workers that waited for this push, so that all begin with the same weights.
    this.#when(
      client,
      id,
      () => this.#clock.mayBegin(client.rank),
      () => this.#answerWeights(client, id, message.optimizer, false),
      true,
    );
    this.#release();
  }

  #meet(client: Client, id: number, { step, position }: Extract<Ask, { ask: 'meet' }>): void {
    this.#positions[client.rank] = position;
    this.#met.set(client.rank, step);
    const others = Array.from({ length: this.#options.worldSize }, (_, rank) => rank).filter((rank) => rank !== client.rank);
    const haveMet = () => others.every((rank) => (this.#met.get(rank) ?? -1) >= step || this.#isStill(rank));
    const isDue = client.rank === 0 ? haveMet : () => this.#parted >= step || this.#isStill(0);
    this.#when(client, id, isDue, () => client.answer(id, {}));
    this.#release();
  }

  /** Whether this rank cannot push until another rank pushes: it is disconnected, has ended, or waits for the others. */
  #isStill(rank: number): boolean {
    return this.#clock.stateOf(rank) !== 'live' || this.#waiting.some(({ client, inStep }) => inStep && client.rank === rank);
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

  #answerWeights(client: Client, id: number, optimizer: number, all: boolean): void {
    const shard = this.#open();
    const { variables, numbers } = shard.take(client.rank, all);
    const head = { variables, iterations: shard.stepsOf(optimizer), signalled: this.#signalled.size };
    client.answer(id, head, numbers.map(bytesOf));
  }

  async #capture({ step, writing }: Extract<Ask, { ask: 'capture' }>): Promise<number> {
    const shard = this.#open();
    if (this.#retired) {
      throw new TonyError('RING_MISMATCH', 'this run is over: there is nothing to keep of it');
    }
    const iterations = shard.stepsOf(0);
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
    return await this.#checkpointsIn(dir).writeShard(pending, { index, count }, tensors);
  }

  /** Individual messages are not authenticated, so a message must not choose where this process reads and writes. */
  #checkpointsIn(dir: string): CheckpointStore {
    const { storage, checkpointDir } = this.#options;
    if (dir !== checkpointDir)
      throw new TonyError('CHECKPOINT_FAILED', `${dir} is not the checkpoint folder of this job (${checkpointDir ?? 'it has none'})`);
    return new CheckpointStore(storage, dir);
  }

  /** Keeps the client informed that the server is alive until the work is done. */
  async #holding<T>(client: Client, id: number, work: Promise<T>): Promise<T> {
    const waiting: Waiting = { client, id, isDue: () => false, answer: () => {}, inStep: false };
    this.#waiting.push(waiting);
    try {
      return await work;
    } finally {
      this.#waiting = this.#waiting.filter((each) => each !== waiting);
    }
  }

  /** Answers immediately, or as soon as `isDue`. */
  #when(client: Client, id: number, isDue: () => boolean, answer: () => void, inStep = false): void {
    if (isDue()) {
      answer();
    } else {
      this.#waiting.push({ client, id, isDue, answer, inStep });
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

/** TensorFlow.js appends numbers that depend on what the process created before: `dense_Dense3/kernel`, `first/kernel_1`, `17`. */
function withoutNumbers(name: string): string {
  return name.replaceAll(/_?\d+/g, '');
}

function numbersIn(body: Uint8Array): Float32Array {
  return new Float32Array(body.buffer, body.byteOffset, body.length / 4);
}

function bytesOf(numbers: Float32Array): Uint8Array {
  return new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength);
}

/** The error that a worker receives when its request fails. */
export function refusalOf(error: unknown): TonyError {
  return error instanceof TonyError ? error : new TonyError('RING_MISMATCH', messageOf(error));
}
