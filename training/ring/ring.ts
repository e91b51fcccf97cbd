import type { WireSecurity } from '../../conf/job.ts';
import type { LossCode } from '../../contract/connections/channel.ts';
import { acceptNeighbour, dialNeighbour } from '../../contract/connections/connect.ts';
import { connectAll, type Peer } from '../../contract/connections/connect-all.ts';
import { openListener } from '../../contract/connections/listener.ts';
import { rankName } from '../../contract/connections/rank-name.ts';
import { TonyError } from '../../platform/errors.ts';
import type { Secret } from '../../platform/secret.ts';
import { describeFrame, type EndEvents, type RingFrame, type RingFrameKind, RingReceiver, RingSender } from './ring-ends.ts';
import { Exchange, type Plan, planAllReduce, planBroadcast, takesPart, type Wire } from './ring-exchange.ts';
import { DEFAULT_TIMEOUTS, type RingOptions, type RingTimeouts } from './ring-options.ts';
import { createVector, type Lane, MAX_NUMBERS, MAX_NUMBERS_WITH_IMAGE, type RingVector } from './ring-vector.ts';

/**
 * The window for two ranks: how many more bytes a rank may send than it has received. A window of this size keeps both directions busy and
 * fits into the processor's cache.
 */
const AHEAD_BYTES = 512 * 1024;
/** The minimum size of a write while more bytes are queued. */
const LEAST_WRITE_BYTES = 128 * 1024;

/**
 * Returns the window in bytes. Rings of more than two ranks have no window: their segments are smaller, and in measurements with 4 ranks,
 * waiting for one neighbour delayed the other.
 */
function aheadOf(worldSize: number): number {
  return worldSize === 2 ? AHEAD_BYTES : Number.POSITIVE_INFINITY;
}

/**
 * Limits the sending rate to the receiving rate. Without a window, a rank would write its whole segment to the socket at once, and the
 * data would leave the processor's cache before the neighbour reads it.
 *
 * The window cannot cause a deadlock. If all ranks were waiting, each rank would have sent more bytes than it had received, which is
 * impossible in a ring.
 */
export class SendWindow {
  readonly #write: (bytes: Uint8Array) => void;
  readonly #waiting: Uint8Array[] = [];
  #allowed: number;

  /** @param ahead the window in bytes. Infinity for a rank that only sends. */
  constructor(write: (bytes: Uint8Array) => void, ahead = AHEAD_BYTES) {
    this.#write = write;
    this.#allowed = ahead;
  }

  readonly send = (bytes: Uint8Array): void => {
    this.#waiting.push(bytes);
    this.#go();
  };

  readonly received = (count: number): void => {
    this.#allowed += count;
    this.#go();
  };

  #go(): void {
    for (let head = this.#waiting[0]; head !== undefined; head = this.#waiting[0]) {
      if (this.#allowed < Math.min(head.length, LEAST_WRITE_BYTES)) {
        return;
      }
      const count = Math.min(head.length, this.#allowed);
      this.#allowed -= count;
      if (count === head.length) {
        this.#waiting.shift();
      } else {
        this.#waiting[0] = head.subarray(count);
      }
      this.#write(head.subarray(0, count));
    }
  }
}

/** The number of ranks in this thread, by key. Only tests run several ranks in one thread. */
const inThisThread = new WeakMap<Secret, number>();

/**
 * One rank of the ring. The ranks of one generation form a ring over TCP, in which each rank is connected to its two neighbours. Every
 * rank must make the same calls in the same order.
 *
 * When a connection fails, the ring calls `onLost` immediately, and calls fail with PEER_LOST after `graceMs`. A broken ring cannot be
 * repaired. The next generation forms a new ring.
 */
export class Ring {
  readonly rank: number;
  readonly worldSize: number;
  readonly #timeouts: RingTimeouts;
  readonly #onLost: (rank: number, cause: string) => void;
  readonly #left: RingReceiver;
  readonly #right: RingSender;
  readonly #vectors = new WeakMap<ArrayBufferLike, RingVector>();
  #staging: RingVector | null = null;
  #sequence = 0;
  #tail: Promise<void> = Promise.resolve();
  /** The number of timer ticks since the current call last sent or received bytes, or null between calls. */
  #silentTicks: number | null = null;
  readonly #broken: Promise<never>;
  #break: (error: TonyError) => void = () => {};
  #state: 'open' | 'lost' | 'broken' | 'closed' = 'open';
  #graceTimer: NodeJS.Timeout | null = null;
  #currentFrame: RingFrame | null = null;
  /** The number of calls that each neighbour made before it closed its ring. Contains only neighbours that have closed their ring. */
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
    this.#left = new RingReceiver(this.#eventsOf(this.#leftRank));
    this.#right = new RingSender(this.#eventsOf(this.#rightRank));
  }

  /**
   * Connects to both neighbours. Retries until `joinMs` have passed.
   * @throws TonyError RING_JOIN_FAILED with the missing ranks and their last errors.
   */
  static async join(options: RingOptions): Promise<Ring> {
    const ring = new Ring(options);
    if (options.worldSize > 1) {
      await ring.#connect(options);
    }
    return ring;
  }

  /**
   * Returns the options for another ring of the same ranks. `sharesThread`: true if this thread runs several ranks, and therefore must not
   * block.
   */
  get setting(): Omit<RingOptions, 'listener' | 'addresses' | 'onLost'> & {
    readonly security: WireSecurity;
    readonly hosts: readonly string[];
    readonly names: readonly string[];
    readonly timeouts: RingTimeouts;
    readonly sharesThread: boolean;
  } {
    const { rank, worldSize, generation, key, security = 'none', addresses, names = [] } = this.#options;
    const hosts = addresses.map(({ host }) => host);
    const sharesThread = (inThisThread.get(key) ?? 0) > 1;
    return { rank, worldSize, generation, key, security, hosts, names, timeouts: this.#timeouts, sharesThread };
  }

  get #leftRank(): number {
    return (this.rank + this.worldSize - 1) % this.worldSize;
  }

  get #rightRank(): number {
    return (this.rank + 1) % this.worldSize;
  }

  #nameOf(rank: number): string {
    return rankName(rank, this.#options.names);
  }

  async #connect(options: RingOptions): Promise<void> {
    const { rank, worldSize, generation, security = 'none' } = options;
    const key = options.key.reveal();
    if (key.length < 16) {
      throw new TonyError('RING_JOIN_FAILED', "the ring's key is missing or shorter than 16 bytes");
    }
    const address = options.addresses[this.#leftRank];
    if (address === undefined) {
      throw new TonyError('RING_JOIN_FAILED', `the address of ${this.#nameOf(this.#leftRank)} is unknown`);
    }
    const [to, from] = [this.#leftRank, this.#rightRank];
    const server = 'host' in options.listener ? await openListener(options.listener) : options.listener;
    const left: Peer = {
      name: this.#nameOf(to),
      connect: async (signal, onRefused) =>
        this.#left.attach(
          await dialNeighbour(address, key, { generation, worldSize, from: rank, to, security }, this.#left, signal, onRefused),
        ),
    };
    const right: Peer = {
      name: this.#nameOf(from),
      connect: async (signal, onRefused) =>
        this.#right.attach(await acceptNeighbour(server, key, { generation, worldSize, from, to: rank, security }, signal, onRefused)),
    };
    try {
      await connectAll([left, right], this.#timeouts.joinMs, options.onRefused, (missing) => {
        const who = [...new Set(missing.map(({ name }) => name))].join(' and ');
        const last = missing.map(({ reason }) => (reason === '' ? '' : `; ${reason}`)).join('');
        return `${who} did not join within ${this.#timeouts.joinMs / 1000} s${last}`;
      });
      this.#keepProcessAlive(false);
    } catch (error) {
      this.#destroy();
      throw error;
    } finally {
      server.close();
    }
  }

  /**
   * Allocates a vector that collective calls use without a copy.
   * @param length the number of elements.
   * @param wire 'float32' if only float32 calls use the vector, or 'float16' if float16 calls use it too.
   */
  vector(length: number, wire: Wire = 'float32'): Float32Array<ArrayBuffer> {
    const vector = createVector(length, wire === 'float16');
    this.#vectors.set(vector.numbers.buffer, vector);
    return vector.numbers;
  }

  /**
   * Replaces `numbers` on every rank with the sum or mean over all ranks. All ranks must pass the same number of elements, and all get
   * bit-identical results.
   * @param wire float16 halves the traffic. Sums are computed in float32, but each partial sum is rounded before it is sent.
   * @throws TonyError PEER_LOST, RING_MISMATCH, WIRE_INVALID.
   */
  async allReduce(numbers: Float32Array, operation: 'sum' | 'mean' = 'sum', wire: Wire = 'float32'): Promise<void> {
    const kind = wire === 'float16' ? (`${operation} as float16` as const) : operation;
    await this.#call(kind, numbers, planAllReduce(this.rank, this.worldSize, numbers.length, operation), wire);
  }

  /** Replaces `numbers` on every rank with rank 0's numbers. All ranks must pass the same number of elements. */
  async broadcast(numbers: Float32Array): Promise<void> {
    await this.#call('broadcast', numbers, planBroadcast(this.rank, this.worldSize, numbers.length), 'float32');
  }

  async barrier(): Promise<void> {
    // With one number per rank, every segment contains data. The call therefore completes only after all ranks have sent data.
    await this.allReduce(new Float32Array(this.worldSize));
  }

  /**
   * Tells both neighbours that this rank has finished, so that they do not report this rank as lost. Synchronous, for use in exit handlers.
   */
  close(): void {
    if (this.#state !== 'closed') {
      this.#state = 'closed';
      inThisThread.set(this.#options.key, (inThisThread.get(this.#options.key) ?? 1) - 1);
      clearTimeout(this.#graceTimer ?? undefined);
      this.#graceTimer = null;
      this.#break(new TonyError('RING_MISMATCH', `${this.#nameOf(this.rank)} has closed its ring`));
      this.#right.end(this.#sequence);
      this.#left.end(this.#sequence);
      this.#keepProcessAlive(false);
    }
  }

  async #call(kind: RingFrameKind, numbers: Float32Array, plan: Plan, wire: Wire): Promise<void> {
    const most = Math.floor(wire === 'float16' ? MAX_NUMBERS_WITH_IMAGE : MAX_NUMBERS);
    if (numbers.length > most) {
      throw new TonyError('RING_MISMATCH', `a vector of ${numbers.length} numbers exceeds the maximum of ${most} numbers per call`);
    }
    if (this.worldSize === 1) {
      return;
    }
    const before = this.#tail;
    const done = before.then(() => this.#run(kind, numbers, plan, wire));
    this.#tail = done.catch(() => {});
    await done;
  }

  async #run(kind: RingFrameKind, numbers: Float32Array, plan: Plan, wire: Wire): Promise<void> {
    const frame: RingFrame = { kind, sequence: this.#sequence >>> 0, length: numbers.length };
    this.#sequence++;
    this.#keepProcessAlive(true);
    this.#currentFrame = frame;
    const watch = this.#watchSilence(frame.sequence === 0);
    try {
      this.#checkEnded();
      await Promise.race([this.#broken, this.#exchange(frame, numbers, plan, wire)]);
    } finally {
      clearInterval(watch);
      this.#silentTicks = null;
      this.#currentFrame = null;
      this.#keepProcessAlive(false);
    }
  }

  async #exchange(frame: RingFrame, numbers: Float32Array, plan: Plan, wire: Wire): Promise<void> {
    if (this.#state !== 'open') {
      await this.#broken;
    }
    const own = this.#ownVector(numbers, wire);
    const vector = own ?? this.#stage(numbers, wire);
    const lane = vector[wire] as Lane;
    const part = takesPart(frame.kind === 'broadcast' ? 'broadcast' : 'all-reduce', this.rank, this.worldSize);
    const sendWindow = new SendWindow(this.#right.write, part.receives ? aheadOf(this.worldSize) : Number.POSITIVE_INFINITY);
    if (part.sends) {
      this.#right.open(frame, () => sendWindow.send(firstBytes(lane, plan)));
    }
    if (part.receives) {
      await this.#left.receive(frame, new Exchange(lane, plan, sendWindow.send, sendWindow.received));
    }
    // The socket reads the vector until its writes are flushed.
    await this.#right.flushed();
    if (own === null) {
      numbers.set(vector.numbers.subarray(0, numbers.length));
    }
  }

  /** Returns the vector that `vector()` created for `numbers`, or null if `numbers` is not the beginning of such a vector. */
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
        const own = this.#currentFrame === null ? 'no call' : describeFrame(this.#currentFrame);
        this.#mismatch(
          `the ranks make different calls: ${this.#nameOf(peer)}: ${describeFrame(actual)}; ${this.#nameOf(this.rank)}: ${own}`,
        );
      },
      ended: (calls) => {
        this.#ended.set(peer, calls);
        this.#checkEnded();
      },
      lost: (cause, code) => this.lose(peer, cause, code),
    };
  }

  /** Fails the current call if a neighbour closed its ring without making the same call. */
  #checkEnded(): void {
    const frame = this.#currentFrame;
    for (const [peer, calls] of this.#ended) {
      if (frame !== null && calls <= frame.sequence) {
        this.#mismatch(
          `${this.#nameOf(peer)} has ended its training, but ${this.#nameOf(this.rank)} makes another call: ${describeFrame(frame)}`,
        );
      }
    }
  }

  /**
   * Detects a silent neighbour. Counts timer ticks instead of elapsed time: if the event loop was blocked, the timer ticks only once
   * before the loop reads the bytes that have arrived.
   */
  #watchSilence(isFirst: boolean): NodeJS.Timeout {
    const { silenceMs, joinMs } = this.#timeouts;
    const maxWaitMs = isFirst ? Math.max(silenceMs, joinMs) : silenceMs;
    const ticks = 8;
    this.#silentTicks = 0;
    return setInterval(
      () => {
        this.#silentTicks = (this.#silentTicks ?? 0) + 1;
        if (this.#silentTicks === ticks) {
          const peer = this.#left.waiting ? this.#leftRank : this.#rightRank;
          this.lose(peer, `was silent for ${maxWaitMs / 1000} s`);
        }
      },
      Math.max(1, maxWaitMs / ticks),
    );
  }

  /**
   * Reports the loss to the job immediately, but lets calls fail only after the grace period. The job therefore receives the original cause
   * before this process fails. With WIRE_INVALID, calls fail immediately, because no other rank can report the cause.
   */
  lose(peer: number, cause: string, code: LossCode = 'PEER_LOST'): void {
    const altered = code === 'WIRE_INVALID' ? { peer, cause } : this.#refused();
    if (altered !== null && (this.#state === 'open' || this.#state === 'lost')) {
      this.#state = 'broken';
      clearTimeout(this.#graceTimer ?? undefined);
      this.#break(new TonyError('WIRE_INVALID', `${this.#nameOf(altered.peer)} ${altered.cause}`));
      this.#destroy();
      return;
    }
    if (this.#state !== 'open') {
      return;
    }
    this.#state = 'lost';
    this.#graceTimer = setTimeout(() => {
      this.#state = 'broken';
      this.#break(new TonyError('PEER_LOST', `${this.#nameOf(peer)} ${cause}`));
      this.#destroy();
    }, this.#timeouts.graceMs);
    if (this.#currentFrame === null) {
      this.#graceTimer.unref();
    }
    this.#onLost(peer, cause);
  }

  /**
   * Returns the neighbour whose data this rank has refused, or null. In a ring with two ranks, this rank may notice the refusal only after
   * it has noticed that the other connection is closed.
   */
  #refused(): { readonly peer: number; readonly cause: string } | null {
    const { refusal: left } = this.#left;
    const { refusal: right } = this.#right;
    return left !== null ? { peer: this.#leftRank, cause: left } : right !== null ? { peer: this.#rightRank, cause: right } : null;
  }

  #mismatch(message: string): void {
    if (this.#state === 'open') {
      this.#state = 'broken';
      this.#break(new TonyError('RING_MISMATCH', message));
    }
  }

  /** Keeps the process alive only during a call. */
  #keepProcessAlive(active: boolean): void {
    for (const handle of [this.#left.socket, this.#right.socket, this.#graceTimer]) {
      if (active) {
        handle?.ref();
      } else {
        handle?.unref();
      }
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
