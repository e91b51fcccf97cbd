import type { Server } from 'node:net';
import { TonyError } from '../conf/errors.ts';
import type { Secret } from '../conf/secret.ts';
import { acceptNeighbour, dialNeighbour, type Listener, openListener } from './ring-connect.ts';
import { type EndEvents, LeftEnd, RightEnd } from './ring-ends.ts';
import { Exchange, type Plan, planAllReduce, planBroadcast, takesPart, type Wire } from './ring-exchange.ts';
import { describeFrame, type Frame, type FrameKind } from './ring-frame.ts';
import { aheadOf, Pace } from './ring-pace.ts';
import { createVector, type Lane, MAX_NUMBERS, MAX_NUMBERS_WITH_IMAGE, type RingVector } from './ring-vector.ts';

export interface RingOptions {
  readonly rank: number;
  readonly worldSize: number;
  readonly generation: number;
  readonly key: Secret;
  /** Where this rank listens, or what it listens with already. */
  readonly listener: Listener | Server;
  /** Where each rank listens, by rank. */
  readonly addresses: readonly { readonly host: string; readonly port: number }[];
  /** Told once, as soon as a neighbour is lost. */
  readonly onLost: (rank: number, cause: string) => void;
  /** Told what was turned away, or could not be reached yet, while the ring forms. */
  readonly onRefused?: (reason: string) => void;
  readonly timeouts?: Partial<RingTimeouts>;
}

export interface RingTimeouts {
  /** Until both neighbours are there. */
  readonly joinMs: number;
  /** Without a byte moving within a call. The first call waits `joinMs` if that is longer: one rank may load its data while another has it. */
  readonly silenceMs: number;
  /** From the loss of a neighbour until calls throw: so long the process waits to be replaced along with its generation. */
  readonly graceMs: number;
}

/** Rings that live in this thread, by their key: several ranks of one ring, as tests have them, share it then. */
const inThisThread = new WeakMap<Secret, number>();

export const DEFAULT_TIMEOUTS: RingTimeouts = { joinMs: 300_000, silenceMs: 120_000, graceMs: 60_000 };

/**
 * The ranks of one generation, each connected to two neighbours over TCP. Every rank makes the same calls in the same order.
 * A lost neighbour is reported by `onLost`; calls then wait (`graceMs`) and throw PEER_LOST. A ring does not mend: a new generation
 * forms a new one.
 */
export class Ring {
  readonly rank: number;
  readonly worldSize: number;
  readonly #timeouts: RingTimeouts;
  readonly #onLost: (rank: number, cause: string) => void;
  readonly #left: LeftEnd;
  readonly #right: RightEnd;
  readonly #vectors = new WeakMap<ArrayBufferLike, RingVector>();
  #staging: RingVector | null = null;
  #sequence = 0;
  #tail: Promise<void> = Promise.resolve();
  /** Ticks of the current call without a byte; null while idle. */
  #silentTicks: number | null = null;
  readonly #broken: Promise<never>;
  #break: (error: TonyError) => void = () => {};
  #state: 'open' | 'lost' | 'broken' | 'closed' = 'open';
  #graceTimer: NodeJS.Timeout | null = null;
  #currentFrame: Frame | null = null;
  /** Neighbours that have said goodbye, and after how many calls. */
  readonly #ended = new Map<number, number>();

  readonly #options: RingOptions;

  private constructor(options: RingOptions) {
    this.#options = options;
    inThisThread.set(options.key, (inThisThread.get(options.key) ?? 0) + 1);
    this.rank = options.rank;
    this.worldSize = options.worldSize;
    this.#timeouts = { ...DEFAULT_TIMEOUTS, ...options.timeouts };
    this.#onLost = options.onLost;
    this.#broken = new Promise<never>((_, reject) => {
      this.#break = reject;
    });
    this.#broken.catch(() => {});
    this.#left = new LeftEnd(this.#eventsOf(this.#leftRank));
    this.#right = new RightEnd(this.#eventsOf(this.#rightRank));
  }

  /**
   * Connects to both neighbours, again and again until `joinMs` have passed.
   * @throws TonyError RING_JOIN_FAILED naming the rank that is missing, and what was heard last.
   */
  static async join(options: RingOptions): Promise<Ring> {
    const ring = new Ring(options);
    if (options.worldSize > 1) {
      await ring.#connect(options);
    }
    return ring;
  }

  /** What another ring of the same ranks needs; `sharesThread`: no rank may block the thread, since another one of this ring runs in it. */
  get setting(): Omit<RingOptions, 'listener' | 'addresses' | 'onLost'> & {
    readonly hosts: readonly string[];
    readonly timeouts: RingTimeouts;
    readonly sharesThread: boolean;
  } {
    const { rank, worldSize, generation, key, addresses } = this.#options;
    const hosts = addresses.map(({ host }) => host);
    return { rank, worldSize, generation, key, hosts, timeouts: this.#timeouts, sharesThread: (inThisThread.get(key) ?? 0) > 1 };
  }

  get #leftRank(): number {
    return (this.rank + this.worldSize - 1) % this.worldSize;
  }

  get #rightRank(): number {
    return (this.rank + 1) % this.worldSize;
  }

  async #connect(options: RingOptions): Promise<void> {
    const { rank, worldSize, generation } = options;
    const key = options.key.reveal();
    if (key.length < 16) {
      throw new TonyError('RING_JOIN_FAILED', "the ring's key is missing or too short");
    }
    const address = options.addresses[this.#leftRank];
    if (address === undefined) {
      throw new TonyError('RING_JOIN_FAILED', `nobody knows where rank ${this.#leftRank} listens`);
    }
    const heard = { left: '', right: '' };
    const listenTo = (side: 'left' | 'right') => (reason: string) => {
      heard[side] = reason;
      options.onRefused?.(reason);
    };
    const missing = { left: true, right: true };
    const giveUp = new AbortController();
    const timer = setTimeout(() => {
      const ranks = new Set([...(missing.left ? [this.#leftRank] : []), ...(missing.right ? [this.#rightRank] : [])]);
      const who = [...ranks].map((peer) => `rank ${peer}`).join(' and ');
      const last = [missing.left ? heard.left : '', missing.right ? heard.right : ''].filter((reason) => reason !== '');
      giveUp.abort(
        new TonyError(
          'RING_JOIN_FAILED',
          `${who} did not join within ${this.#timeouts.joinMs / 1000} s${last.map((reason) => `; ${reason}`).join('')}`,
        ),
      );
    }, this.#timeouts.joinMs);
    let server: Server | null = null;
    try {
      server = 'host' in options.listener ? await openListener(options.listener) : options.listener;
      const accepting = acceptNeighbour(
        server,
        key,
        { generation, worldSize, from: this.#rightRank, to: rank },
        giveUp.signal,
        listenTo('right'),
      ).then((socket) => {
        this.#right.attach(socket);
        missing.right = false;
      });
      const dialling = dialNeighbour(
        address,
        key,
        { generation, worldSize, from: rank, to: this.#leftRank },
        this.#left,
        giveUp.signal,
        listenTo('left'),
      ).then((socket) => {
        this.#left.attach(socket);
        missing.left = false;
      });
      await Promise.all([accepting, dialling]);
      this.#hold(false);
    } catch (error) {
      giveUp.abort(error);
      this.#destroy();
      throw error;
    } finally {
      clearTimeout(timer);
      server?.close();
    }
  }

  /**
   * A vector in the ring's own memory: all-reduces of it copy nothing.
   * @param length in numbers.
   * @param wire how it is to travel; as float32 it may in any case.
   */
  vector(length: number, wire: Wire = 'float32'): Float32Array<ArrayBuffer> {
    const vector = createVector(length, wire === 'float16');
    this.#vectors.set(vector.numbers.buffer, vector);
    return vector.numbers;
  }

  /**
   * Replaces `numbers`, on every rank, by the sum (or the mean) over all ranks, the same bits everywhere. Equal lengths on all ranks.
   * @param wire as float16 half as many bytes travel; each partial sum of float32 is rounded before it is sent on.
   * @throws TonyError PEER_LOST, RING_MISMATCH.
   */
  async allReduce(numbers: Float32Array, operation: 'sum' | 'mean' = 'sum', wire: Wire = 'float32'): Promise<void> {
    const kind = wire === 'float16' ? (`${operation} as float16` as const) : operation;
    await this.#call(kind, numbers, planAllReduce(this.rank, this.worldSize, numbers.length, operation), wire);
  }

  /** Replaces `numbers` on every rank by those of rank 0. Equal lengths on all ranks. */
  async broadcast(numbers: Float32Array): Promise<void> {
    await this.#call('broadcast', numbers, planBroadcast(this.rank, this.worldSize, numbers.length), 'float32');
  }

  /** Resolves when every rank has called it. */
  async barrier(): Promise<void> {
    // A number for each rank: the sum depends on everybody, and so does its arrival.
    await this.allReduce(new Float32Array(this.worldSize));
  }

  /** Says goodbye to the neighbours: their reading an end of the connection is no loss then. Synchronous, so that it works at exit. */
  close(): void {
    if (this.#state !== 'closed') {
      this.#state = 'closed';
      inThisThread.set(this.#options.key, (inThisThread.get(this.#options.key) ?? 1) - 1);
      this.#clearGrace();
      this.#break(new TonyError('RING_MISMATCH', `rank ${this.rank} has closed its ring`));
      this.#right.end(this.#sequence);
      this.#left.end(this.#sequence);
      this.#hold(false);
    }
  }

  async #call(kind: FrameKind, numbers: Float32Array, plan: Plan, wire: Wire): Promise<void> {
    const most = Math.floor(wire === 'float16' ? MAX_NUMBERS_WITH_IMAGE : MAX_NUMBERS);
    if (numbers.length > most) {
      throw new TonyError('RING_MISMATCH', `${numbers.length} numbers are more than the ${most} that fit into one call`);
    }
    if (this.worldSize === 1) {
      return;
    }
    // One call at a time, in the order in which they were made.
    const before = this.#tail;
    const done = before.then(() => this.#run(kind, numbers, plan, wire));
    this.#tail = done.catch(() => {});
    await done;
  }

  async #run(kind: FrameKind, numbers: Float32Array, plan: Plan, wire: Wire): Promise<void> {
    const frame: Frame = { kind, sequence: this.#sequence >>> 0, length: numbers.length };
    this.#sequence++;
    this.#hold(true);
    this.#currentFrame = frame;
    const watch = this.#watchSilence(frame.sequence === 0);
    try {
      this.#checkEnded();
      await Promise.race([this.#broken, this.#exchange(frame, numbers, plan, wire)]);
    } finally {
      clearInterval(watch);
      this.#silentTicks = null;
      this.#currentFrame = null;
      this.#hold(false);
    }
  }

  async #exchange(frame: Frame, numbers: Float32Array, plan: Plan, wire: Wire): Promise<void> {
    if (this.#state !== 'open') {
      await this.#broken;
    }
    const own = this.#ownVector(numbers, wire);
    const vector = own ?? this.#stage(numbers, wire);
    const lane = vector[wire] as Lane;
    const part = takesPart(frame.kind === 'broadcast' ? 'broadcast' : 'all-reduce', this.rank, this.worldSize);
    const pace = new Pace(this.#right.write, part.receives ? aheadOf(this.worldSize) : Number.POSITIVE_INFINITY);
    if (part.sends) {
      this.#right.open(frame, () => pace.send(firstBytes(lane, plan)));
    }
    if (part.receives) {
      await this.#left.receive(frame, new Exchange(lane, plan, pace.send, pace.received));
    }
    // The last writes still read from the vector: only now may the caller change it.
    await this.#right.flushed();
    if (own === null) {
      numbers.set(vector.numbers.subarray(0, numbers.length));
    }
  }

  /** The ring's vector whose beginning `numbers` is. */
  #ownVector(numbers: Float32Array, wire: Wire): RingVector | null {
    const vector = this.#vectors.get(numbers.buffer);
    const isOwn = vector?.[wire] && numbers.byteOffset === vector.numbers.byteOffset && numbers.length <= vector.numbers.length;
    return isOwn ? vector : null;
  }

  #stage(numbers: Float32Array, wire: Wire): RingVector {
    if (this.#staging === null || this.#staging.numbers.length < numbers.length || this.#staging[wire] === null) {
      this.#staging = createVector(numbers.length, wire === 'float16');
    }
    this.#staging.numbers.set(numbers);
    return this.#staging;
  }

  #eventsOf(peer: number): EndEvents {
    return {
      progress: () => {
        if (this.#silentTicks !== null) {
          this.#silentTicks = 0;
        }
      },
      mismatch: (actual) => {
        const own = this.#currentFrame === null ? 'none' : describeFrame(this.#currentFrame);
        this.#mismatch(`rank ${peer} makes ${describeFrame(actual)}, rank ${this.rank} ${own}`);
      },
      ended: (calls) => {
        this.#ended.set(peer, calls);
        this.#checkEnded();
      },
      lost: (cause) => this.#lose(peer, cause),
    };
  }

  /** A neighbour that has ended before the current call will not take part in it; one that ended after it already has. */
  #checkEnded(): void {
    const frame = this.#currentFrame;
    for (const [peer, calls] of this.#ended) {
      if (frame !== null && calls <= frame.sequence) {
        this.#mismatch(`rank ${peer} has ended its training, rank ${this.rank} makes ${describeFrame(frame)}`);
      }
    }
  }

  /**
   * Ticks, not a clock: when this process's own event loop was blocked for long, one tick is late, but the bytes that came meanwhile
   * are read before the next one.
   */
  #watchSilence(isFirst: boolean): NodeJS.Timeout {
    const { silenceMs, joinMs } = this.#timeouts;
    const patienceMs = isFirst ? Math.max(silenceMs, joinMs) : silenceMs;
    const ticks = 8;
    this.#silentTicks = 0;
    return setInterval(
      () => {
        this.#silentTicks = (this.#silentTicks ?? 0) + 1;
        if (this.#silentTicks === ticks) {
          const peer = this.#left.waiting ? this.#leftRank : this.#rightRank;
          this.#lose(peer, `was silent for ${patienceMs / 1000} s`);
        }
      },
      Math.max(1, patienceMs / ticks),
    );
  }

  /** What another ring of the same ranks has noticed. */
  lose(peer: number, cause: string): void {
    this.#lose(peer, cause);
  }

  /** A neighbour is gone: say so at once, then wait quietly to be stopped, so that the first cause is blamed. */
  #lose(peer: number, cause: string): void {
    if (this.#state !== 'open') {
      return;
    }
    this.#state = 'lost';
    this.#graceTimer = setTimeout(() => {
      this.#state = 'broken';
      this.#break(new TonyError('PEER_LOST', `rank ${peer} ${cause}`));
      this.#destroy();
    }, this.#timeouts.graceMs);
    if (this.#currentFrame === null) {
      this.#graceTimer.unref();
    }
    this.#onLost(peer, cause);
  }

  #mismatch(message: string): void {
    if (this.#state === 'open') {
      this.#state = 'broken';
      this.#break(new TonyError('RING_MISMATCH', message));
    }
  }

  /** An idle ring keeps no process alive. */
  #hold(active: boolean): void {
    for (const handle of [this.#left.socket, this.#right.socket, this.#graceTimer]) {
      if (active) {
        handle?.ref();
      } else {
        handle?.unref();
      }
    }
  }

  #clearGrace(): void {
    if (this.#graceTimer !== null) {
      clearTimeout(this.#graceTimer);
      this.#graceTimer = null;
    }
  }

  #destroy(): void {
    this.#left.socket?.destroy();
    this.#right.socket?.destroy();
  }
}

function firstBytes(lane: Lane, { first }: Plan): Uint8Array {
  if (first === null) {
    return new Uint8Array(0);
  }
  lane.encode(first.from, first.to);
  return lane.image.subarray(first.from * lane.width, first.to * lane.width);
}
