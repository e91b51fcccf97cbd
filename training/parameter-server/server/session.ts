import type * as tfjs from '@tensorflow/tfjs';
import type { TrainingPosition } from '../../../contract/checkpoint/checkpoint-format.ts';
import { TonyError } from '../../../platform/errors.ts';
import type { Storage } from '../../../storage/storage.ts';
import type { ServerAsk, ServerAskOf } from '../protocol/messages.ts';
import { DelayedRequests } from './delayed-requests.ts';
import { RunClock } from './run-clock.ts';
import { ServedShard } from './served-shard.ts';
import { ServerCheckpoints } from './server-checkpoints.ts';
import { SharedTensors } from './shared-tensors.ts';
import { type Client, WorkerRequest } from './worker-request.ts';

/**
 * Ends a run in two steps. First, all workers finish their steps. Then, the chief stores the last checkpoint and seals the run, while the
 * other workers wait.
 */
class RunEnd {
  readonly #clock: RunClock;
  readonly #delayed: DelayedRequests;
  #closing = false;
  #sealed: { readonly failed: boolean } | null = null;

  constructor(clock: RunClock, delayed: DelayedRequests) {
    this.#clock = clock;
    this.#delayed = delayed;
  }

  /** True once all workers have finished. The weights must then stay unchanged until the chief has stored the last checkpoint. */
  get closing(): boolean {
    return this.#closing;
  }

  get sealed(): boolean {
    return this.#sealed !== null;
  }

  /** Marks the worker as finished. The worker receives the answer once all workers have finished. */
  finish(request: WorkerRequest): void {
    this.#clock.finish(request.rank);
    this.#delayed.release();
    this.#delayed.when(
      request,
      () => this.#clock.over,
      () => {
        this.#closing = true;
        request.answer({});
      },
    );
  }

  /** Ends the run for all workers. @param failed true if the chief could not store the last checkpoint. */
  seal(request: WorkerRequest, failed: boolean): void {
    this.#sealed = { failed };
    request.answer({});
    this.#delayed.release();
  }

  awaitSeal(request: WorkerRequest): void {
    this.#delayed.when(
      request,
      () => this.sealed,
      () => request.answer({ failed: this.#sealed?.failed ?? false }),
    );
  }
}

/** @throws TonyError RING_MISMATCH if the worker's variables or optimizer differ from the chief's. */
function checkEntered(shard: ServedShard, rank: number, { first, variables, optimizer }: ServerAskOf<'enter'>): void {
  for (const [index, { name, shape }] of variables.entries()) {
    const { described } = shard.variable(first + index);
    if (String(described.shape) !== String(shape) || withoutNumbers(described.name) !== withoutNumbers(name)) {
      const [there, here] = [`${described.name} [${described.shape}]`, `${name} [${shape}]`];
      throw new TonyError('RING_MISMATCH', `variable ${first + index} is ${there} on rank 0, but ${here} on rank ${rank}`, {
        hint: 'Every rank must train the same variables in the same order.',
      });
    }
  }
  const { className } = shard.optimizer(optimizer.index).description;
  if (className !== optimizer.className) {
    const both = `${className} on rank 0, but ${optimizer.className} on rank ${rank}`;
    throw new TonyError('RING_MISMATCH', `optimizer ${optimizer.index} is ${both}`);
  }
}

/**
 * Creates the error for a worker that uses a variable or an optimizer in a step in which the chief did not use that variable or optimizer.
 */
function unusedByChief(shard: ServedShard, rank: number, { variables, first, step }: ServerAskOf<'enter'>): TonyError {
  const [name] = variables.flatMap(({ name }, index) => (first + index < shard.count ? [] : [name]));
  const what = name === undefined ? 'an optimizer' : `the variable ${name}`;
  return new TonyError('RING_MISMATCH', `rank ${rank} trains ${what} in step ${step}, but rank 0 took that step without it`, {
    hint: 'Pass the same variables to every step. Variables on which the loss does not depend keep their values.',
  });
}

/** Removes the numbers that TensorFlow.js adds to make names unique: `dense_Dense3/kernel`, `first/kernel_1`, `17`. */
function withoutNumbers(name: string): string {
  return name.replaceAll(/_?\d+/g, '');
}

/**
 * Makes all workers pause at the same iteration while the chief (rank 0) takes a checkpoint. Used only with staleness 0. messages.ts
 * describes the messages `meet` and `part`.
 */
class CheckpointPause {
  readonly #worldSize: number;
  readonly #clock: RunClock;
  readonly #delayed: DelayedRequests;
  /** The iteration in each rank's last `meet`. */
  readonly #met = new Map<number, number>();
  /** The iteration in the chief's last `part`. */
  #parted = -1;

  constructor(worldSize: number, clock: RunClock, delayed: DelayedRequests) {
    this.#worldSize = worldSize;
    this.#clock = clock;
    this.#delayed = delayed;
  }

  meet(request: WorkerRequest, step: number): void {
    this.#met.set(request.rank, step);
    const others = Array.from({ length: this.#worldSize }, (_, rank) => rank).filter((rank) => rank !== request.rank);
    const haveMet = () => others.every((rank) => (this.#met.get(rank) ?? -1) >= step || this.#cannotPush(rank));
    const isDue = request.rank === 0 ? haveMet : () => this.#parted >= step || this.#cannotPush(0);
    this.#delayed.when(request, isDue, () => request.answer({}));
    this.#delayed.release();
  }

  part(request: WorkerRequest, step: number): void {
    this.#parted = Math.max(this.#parted, step);
    request.answer({});
    this.#delayed.release();
  }

  /** Returns true if this rank is disconnected, has finished, or must wait for other ranks before its next push. */
  #cannotPush(rank: number): boolean {
    return this.#clock.stateOf(rank) !== 'live' || this.#delayed.isInStep(rank);
  }
}

export interface ServerTimeouts {
  /** The time in ms to wait for workers that have not joined yet. */
  readonly joinMs: number;
  /** The time in ms to wait for a lost worker's replacement. After this time, the other workers continue without the lost worker. */
  readonly replaceMs: number;
}

export interface SessionOptions extends ServerTimeouts {
  readonly tf: typeof tfjs;
  readonly storage: Storage;
  /** The URI of the job's checkpoint folder, or null if the job has none. Workers cannot make this server access any other folder. */
  readonly checkpointDir: string | null;
  /** This server's index. Server 0 also holds the state that is not split, such as the non-trainable weights and the signals. */
  readonly index: number;
  readonly worldSize: number;
  /** The names of the workers in messages, by rank, for example `worker:1`. Default: `rank 1`. */
  readonly names?: readonly string[];
  readonly onNotice: (message: string) => void;
}

/** The complete state of one run on one parameter server. Does not contain socket code. */
export class ServerSession {
  readonly #options: SessionOptions;
  readonly #clients = new Map<number, Client>();
  readonly #ended = new Set<number>();
  readonly #delayed = new DelayedRequests();
  readonly #clock: RunClock;
  readonly #end: RunEnd;
  readonly #pause: CheckpointPause;
  readonly #tensors: SharedTensors;
  readonly #checkpoints: ServerCheckpoints;
  #state: 'empty' | 'prepared' | 'open' = 'empty';
  #shard: ServedShard | null = null;
  /** The number of `prepare` requests. If several arrive, only the last one takes effect. */
  #prepares = 0;
  #chiefSteps = 0;
  #start: TrainingPosition | null = null;
  readonly #positions: (TrainingPosition | null)[];
  readonly #signalled = new Set<number>();
  #reason: string | null = null;

  constructor(options: SessionOptions) {
    const { worldSize, storage, checkpointDir, names = [], onNotice } = options;
    this.#options = options;
    this.#clock = new RunClock({ worldSize, names, onNotice, onGivenUp: () => this.#delayed.release() });
    this.#end = new RunEnd(this.#clock, this.#delayed);
    this.#pause = new CheckpointPause(worldSize, this.#clock, this.#delayed);
    this.#checkpoints = new ServerCheckpoints(storage, checkpointDir);
    this.#positions = new Array<TrainingPosition | null>(worldSize).fill(null);
    this.#tensors = new SharedTensors(this.#delayed, () => [...this.#positions.keys()].filter((rank) => !this.#ended.has(rank)));
  }

  /**
   * Adds a worker's connection.
   * @returns the same rank's previous connection, which this connection replaces.
   */
  attach(client: Client): Client | undefined {
    const before = this.#clients.get(client.rank);
    this.#clients.set(client.rank, client);
    this.#ended.delete(client.rank);
    this.#delayed.drop(before);
    return before;
  }

  /** Handles a connection that has closed. @param announced true if the worker has sent `bye`. */
  detach(client: Client, announced: boolean): void {
    const { rank } = client;
    if (this.#clients.get(rank) !== client) {
      return;
    }
    this.#clients.delete(rank);
    this.#delayed.drop(client);
    const isLive = this.#clock.stateOf(rank) === 'live';
    if (announced) {
      this.#ended.add(rank);
    }
    if (isLive && announced) {
      // The worker has left the run deliberately, so the other workers do not wait for it.
      this.#clock.finish(rank);
    } else if (isLive) {
      this.#clock.lose(rank);
      this.#clock.giveUpIn(rank, this.#options.replaceMs);
    }
    this.#delayed.release();
  }

  /** True once all workers have left the run deliberately. */
  get over(): boolean {
    return this.#ended.size === this.#options.worldSize;
  }

  /**
   * Frees a run's state after all workers have left the run. Keeps the results, because a worker's replacement replays earlier runs. If
   * some workers have not finished, the run may continue, so all of its state is kept.
   */
  retire(): void {
    this.#checkpoints.clear();
    if (this.#end.closing) {
      this.#shard?.retire();
    }
  }

  /** Frees the optimizer state. Call this method once a later run has ended. */
  forgetStates(): void {
    this.#shard?.forgetStates();
  }

  /** Tells waiting workers that the server is alive. */
  holdWaiting(): void {
    this.#delayed.hold();
  }

  dispose(): void {
    this.#clock.dispose();
    this.#delayed.clear();
    this.#tensors.clear();
    this.#checkpoints.clear();
    this.#shard?.dispose();
    this.#shard = null;
  }

  /**
   * Returns the number of body bytes that a request must have.
   * @throws TonyError if the request is invalid in the current state.
   */
  bodyBytes(message: ServerAsk): number {
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

  /** @param body the request's body. Only `put` and `prepare` use it after the call returns. */
  async handle(client: Client, id: number, message: ServerAsk, body: Uint8Array): Promise<void> {
    const request = new WorkerRequest(client, id);
    switch (message.ask) {
      case 'hello':
        return request.answer({ state: this.#state });
      case 'prepare':
        // Reading a large checkpoint takes a long time. Meanwhile, `during` tells the worker that the server is alive.
        await this.#delayed.during(request, this.#prepare(message, body));
        return request.answer({});
      case 'open':
        return this.#openAll(request);
      case 'join':
        return this.#join(request);
      case 'enter':
        return this.#enter(request, message);
      case 'add':
        return this.#add(request, message, body);
      case 'pull':
        return this.#pull(request, message);
      case 'assign':
        return this.#assign(request, message, body);
      case 'push':
        return this.#push(request, message, body);
      case 'signal':
        return this.#signal(request, message);
      case 'meet':
        this.#positions[client.rank] = message.position;
        return this.#pause.meet(request, message.step);
      case 'part':
        return this.#pause.part(request, message.step);
      case 'put':
        return this.#tensors.put(request, message, body);
      case 'get':
        return this.#tensors.get(request, message);
      case 'state': {
        const { head, numbers } = this.#open().stateFor(client.rank, message.optimizer);
        return request.answer({ state: head }, numbers);
      }
      case 'positions':
        return request.answer({ positions: this.#positions });
      case 'capture':
        return await this.#capture(request, message);
      case 'write':
        return request.answer({ shard: await this.#delayed.during(request, this.#checkpoints.write(message)) });
      case 'finish':
        this.#keepPosition(client.rank, message.position);
        return this.#end.finish(request);
      case 'seal':
        this.#start = message.position ?? this.#start;
        return this.#end.seal(request, message.failed);
      case 'sealed':
        return this.#end.awaitSeal(request);
    }
  }

  async #prepare(message: ServerAskOf<'prepare'>, body: Uint8Array): Promise<void> {
    if (this.#state === 'open') {
      throw new TonyError('RING_MISMATCH', 'this parameter server already holds the weights of the run');
    }
    this.#prepares++;
    const attempt = this.#prepares;
    const shard = this.#newShard(message.staleness);
    try {
      shard.add(message.addition, numbersIn(body), message.restore === null);
      if (message.restore !== null) {
        await this.#checkpoints.restore(shard, message.restore);
      }
      if (attempt !== this.#prepares) {
        throw new TonyError('RING_MISMATCH', 'another process of rank 0 has prepared this parameter server in the meantime');
      }
    } catch (error) {
      shard.dispose();
      throw error;
    }
    this.#shard?.dispose();
    this.#shard = shard;
    this.#start = message.position;
    this.#clock.staleness = message.staleness;
    this.#state = 'prepared';
  }

  #openAll(request: WorkerRequest): void {
    if (this.#state === 'empty') {
      throw new TonyError('RING_MISMATCH', 'this parameter server has not been prepared');
    }
    if (this.#state === 'prepared') {
      this.#state = 'open';
      for (const rank of this.#positions.keys()) {
        this.#clock.giveUpIn(rank, this.#options.joinMs);
      }
    }
    this.#delayed.release();
    request.answer({});
  }

  #open(): ServedShard {
    if (this.#shard === null || this.#state !== 'open') {
      throw new TonyError('RING_MISMATCH', 'this parameter server does not hold the weights yet');
    }
    return this.#shard;
  }

  #newShard(staleness: number | null): ServedShard {
    return new ServedShard(this.#options.tf, staleness === 0);
  }

  #join(request: WorkerRequest): void {
    const answer = () => {
      const { sealed } = this.#end;
      const position = sealed ? this.#start : (this.#positions[request.rank] ?? this.#start);
      request.answer({ position, sealed, steps: this.#clock.stepsOf(request.rank) });
    };
    this.#delayed.when(request, () => this.#state === 'open', answer);
  }

  #enter(request: WorkerRequest, message: ServerAskOf<'enter'>): void {
    const { first, variables, optimizer, chief, step } = message;
    const shard = this.#open();
    const ids = variables.map((_, index) => first + index);
    const isKnown = () => shard.knows(ids, optimizer.index, optimizer.variables);
    const answer = () => {
      if (isKnown()) {
        this.#answerEntered(request, shard, message, ids);
      } else if (chief) {
        request.answer({ known: false, pieces: [], size: shard.size });
      } else {
        throw unusedByChief(shard, request.rank, message);
      }
    };
    if (chief) {
      this.#chiefSteps = step;
    }
    const isChiefBeyond = () => this.#chiefSteps > step || this.#ended.has(0) || this.#clock.stateOf(0) === 'finished';
    this.#delayed.when(request, () => chief || isKnown() || isChiefBeyond(), answer, true);
    this.#delayed.release();
  }

  #answerEntered(request: WorkerRequest, shard: ServedShard, message: ServerAskOf<'enter'>, ids: readonly number[]): void {
    checkEntered(shard, request.rank, message);
    const entered = ids.map((id) => shard.variable(id)).filter(({ piece }) => piece !== null);
    const numbers = entered.map((each) => each.enter(request.rank));
    request.answer({ known: true, pieces: entered.map(({ piece }) => piece), size: shard.size }, numbers);
    shard.forget(this.#clock.counted());
  }

  #add(request: WorkerRequest, { addition }: ServerAskOf<'add'>, body: Uint8Array): void {
    this.#open().add(addition, numbersIn(body), true);
    request.answer({});
    this.#delayed.release();
  }

  /**
   * Sends the weights. A worker joins the staleness clock when it first pulls weights for a step. If other workers have waited for this
   * pull, they then begin with the same weights.
   */
  #pull(request: WorkerRequest, { now, all }: ServerAskOf<'pull'>): void {
    const { rank } = request;
    this.#open();
    if (!now && this.#clock.stateOf(rank) !== 'live') {
      this.#clock.join(rank);
    }
    const isDue = () => now || this.#clock.mayBegin(rank);
    this.#delayed.when(request, isDue, () => this.#answerWeights(request, 0, all), true);
    this.#delayed.release();
  }

  #assign(request: WorkerRequest, { variables }: ServerAskOf<'assign'>, body: Uint8Array): void {
    if (!this.#end.closing) {
      this.#open().assign(variables, numbersIn(body), request.rank);
    }
    request.answer({});
  }

  #push(request: WorkerRequest, message: ServerAskOf<'push'>, body: Uint8Array): void {
    const { rank } = request;
    const { optimizer, dropped } = message;
    const shard = this.#open();
    if (!this.#end.closing) {
      if (message.hasExamples) {
        shard.apply(optimizer, message.present, numbersIn(body), message.learningRate);
      }
      this.#keepPosition(rank, message.position);
    }
    this.#noteSignal(rank, message.signal ?? 0);
    this.#clock.finishStep(rank);
    if (rank === 0) {
      this.#chiefSteps++;
    }
    if (dropped !== undefined) {
      shard.drop(rank, dropped.variables, dropped.optimizers);
      shard.forget(this.#clock.counted());
    }
    // Workers that were waiting for this push receive their answers at the same time, so all workers begin with the same weights.
    const isDue = () => this.#clock.mayBegin(rank);
    this.#delayed.when(request, isDue, () => this.#answerWeights(request, optimizer, false), true);
    this.#delayed.release();
  }

  #answerWeights(request: WorkerRequest, optimizer: number, all: boolean): void {
    const shard = this.#open();
    const { variables, numbers } = shard.take(request.rank, all);
    request.answer({ variables, iterations: shard.stepsOf(optimizer), signalled: this.#signalled.size }, numbers);
  }

  #signal(request: WorkerRequest, { signal, reason }: ServerAskOf<'signal'>): void {
    this.#noteSignal(request.rank, signal);
    this.#reason ??= reason ?? null;
    request.answer({ signalled: this.#signalled.size, reason: this.#reason });
  }

  #noteSignal(rank: number, signal: number): void {
    if (signal > 0) {
      this.#signalled.add(rank);
    }
  }

  #keepPosition(rank: number, position: TrainingPosition | null = null): void {
    this.#positions[rank] = position ?? this.#positions[rank] ?? null;
  }

  async #capture(request: WorkerRequest, message: ServerAskOf<'capture'>): Promise<void> {
    const shard = this.#open();
    if (shard.retired) {
      throw new TonyError('RING_MISMATCH', 'the run has ended, so its state is no longer available for checkpoints');
    }
    const iterations = shard.stepsOf(0);
    await this.#delayed.during(request, this.#checkpoints.capture(shard, message, this.#options.index === 0));
    request.answer({ iterations });
  }
}

function numbersIn(body: Uint8Array): Float32Array {
  return new Float32Array(body.buffer, body.byteOffset, body.length / 4);
}
