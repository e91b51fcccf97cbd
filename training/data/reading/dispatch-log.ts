import { TonyError } from '../../../platform/errors.ts';
import type { Json } from '../../../platform/json-value.ts';
import type { Share } from './share.ts';
import { type PassPlace, type SplitGiver, splitGiver } from './split-giver.ts';

/** One reader's view of a pass over the splits. */
interface PassLog {
  /** The number of the pass, counted by this reader. */
  readonly number: number;
  readonly key: string;
  readonly log: number[];
  readonly restored: boolean;
  /** True if all splits of the pass have been assigned. */
  readonly isOver: boolean;
  /** True if this reader has begun the pass, in this process or before its state was stored; false if only another reader has. */
  isBegun: boolean;
  isOpen: boolean;
  joined: Joined | null;
}

/** The registration of the reader's log with the giver; may be pending. */
interface Joined {
  readonly giver: SplitGiver;
  readonly place: PassPlace;
  readonly done: Promise<void>;
}

/**
 * The position in a stream of dispatched splits: the number of the pass, the number of the split in the reader's log, and the position in
 * the split.
 */
export interface DispatchedPlace {
  readonly dispatched: readonly [pass: number, split: number, at: Json];
}

/**
 * The splits that a reader has received, in order. The order determines which elements are mixed or batched together, and it depends on
 * read-ahead. Therefore the log is part of the reader's state, and a resumed reader receives the same splits again.
 */
export class DispatchLog {
  readonly #share: Share;
  readonly #giver: SplitGiver | null;
  readonly #passes: PassLog[] = [];
  /** The number of the pass in which this reader started. */
  readonly #first: number;
  /** The number of the pass in which the most advanced reader started. */
  readonly #farthest: number;

  /**
   * All readers number the passes equally, because they begin them in the same order.
   *
   * @param stored the output of `state`.
   * @param all the outputs of `state` for the readers of all shares, if they resume together. For a pass that only another reader has
   *   begun, this reader reports an empty log; a pass that another reader has left counts as fully assigned.
   * @param giver that of this process by default.
   */
  constructor(share: Share, stored: Json, all: readonly Json[], giver: SplitGiver | null) {
    this.#share = share;
    this.#giver = giver;
    const own = storedPasses(stored);
    const others = all.map(storedPasses).filter((passes) => passes.length > 0);
    this.#first = firstNumber(own);
    this.#farthest = Math.max(0, ...others.map(firstNumber));
    for (const [number, key, log] of own) this.#add({ number, key, log: [...log], restored: true, isBegun: true });
    for (const [number, key] of others.flat()) {
      const isKnown = this.#passes.some((each) => each.key === key);
      if (!isKnown && number >= this.#first) this.#add({ number, key, log: [], restored: true, isBegun: false });
    }
  }

  /**
   * Opens the known pass, or a new one.
   * @throws TonyError USAGE when the pass is already open because one dataset occurs twice in another.
   */
  open(what: { readonly fingerprint: string; readonly splits: number; readonly passes: readonly number[] }): OpenPass {
    const key = JSON.stringify([what.fingerprint, what.splits, what.passes]);
    const pass = this.#passes.find((each) => each.key === key) ?? this.#begun(key);
    if (pass.isOpen) {
      throw new TonyError('USAGE', 'the same files are dispatched twice at the same time', {
        hint: 'Put dispatch() behind what joins the datasets, and use different files in each of them.',
      });
    }
    pass.isOpen = true;
    pass.isBegun = true;
    return new OpenPass(pass, (signal) => this.#join(pass, signal));
  }

  /**
   * Registers this reader's logs of all passes immediately, because other readers, which may be ahead or behind, receive no splits before.
   */
  begin(signal: AbortSignal): void {
    for (const pass of this.#passes) if (pass.restored && !pass.isOver) this.#join(pass, signal);
  }

  /** Adds a pass that no stored state contains: a new one, or one that all other readers have left and this reader has yet to reach. */
  #begun(key: string): PassLog {
    const taken = new Set(this.#passes.map((pass) => pass.number));
    let number = this.#first;
    while (taken.has(number)) number++;
    return this.#add({ number, key, log: [], restored: false, isBegun: true });
  }

  #add(what: Omit<PassLog, 'isOver' | 'isOpen' | 'joined'>): PassLog {
    const pass: PassLog = { ...what, isOver: what.number < this.#farthest, isOpen: false, joined: null };
    this.#passes.push(pass);
    return pass;
  }

  #join(pass: PassLog, signal: AbortSignal): Joined {
    pass.joined ??= this.#told(pass, signal);
    return pass.joined;
  }

  #told({ key, log, restored }: PassLog, signal: AbortSignal): Joined {
    const giver = this.#giver ?? splitGiver(this.#share);
    const [fingerprint, splits, passes] = JSON.parse(key) as [string, number, number[]];
    const reading = giver.begin(JSON.stringify([key, this.#share]));
    const place: PassPlace = { kind: 'shares', fingerprint, splits, passes, reading, share: this.#share };
    const done = giver.join(place, log, restored, signal);
    // The error surfaces where the promise is awaited.
    done.catch(() => {});
    return { giver, place, done };
  }

  /**
   * The state for checkpoints; null if nothing is dispatched.
   * @param at the position of the reader: passes before it are finished for all readers.
   */
  state(at: Json): Json {
    const first = firstPassIn(at) ?? 0;
    // Readers store only the passes that they have begun: an entry for another pass would mean that this reader had reached it.
    const needed = this.#passes.filter(({ number, isBegun }) => isBegun && number >= first);
    return needed.length === 0 ? null : needed.map(({ number, key, log }) => [number, key, [...log]]);
  }
}

export class OpenPass {
  readonly #pass: PassLog;
  readonly #join: (signal: AbortSignal) => Joined;

  constructor(pass: PassLog, join: (signal: AbortSignal) => Joined) {
    this.#pass = pass;
    this.#join = join;
  }

  get number(): number {
    return this.#pass.number;
  }

  /** Returns split number `at` of the log, and requests it if it is new; null after the last split. */
  async split(at: number, signal: AbortSignal): Promise<number | null> {
    const { log, isOver } = this.#pass;
    const known = log[at];
    if (isOver) return known ?? null;
    // Registers this reader's log first, because other readers may wait for it.
    const { giver, place, done } = this.#join(signal);
    await done;
    if (known !== undefined) return known;
    const next = await giver.next(place, log, signal);
    // This is the only writer of the log: a reader has a pass open only once at a time.
    if (next !== null) log.push(next);
    return next;
  }

  close(): void {
    this.#pass.isOpen = false;
  }
}

type StoredPasses = readonly (readonly [number: number, key: string, log: readonly number[]])[];

function storedPasses(stored: Json): StoredPasses {
  return (stored ?? []) as unknown as StoredPasses;
}

/** The number of the pass in which a reader stands; it stores no earlier passes. */
function firstNumber(passes: StoredPasses): number {
  return passes.length === 0 ? 0 : Math.min(...passes.map(([number]) => number));
}

/** The earliest pass in a reader's position; null for none. */
function firstPassIn(at: Json): number | null {
  if (typeof at !== 'object' || at === null) return null;
  if (!Array.isArray(at) && 'dispatched' in at) return (at as unknown as DispatchedPlace).dispatched[0];
  const inner = Object.values(at).flatMap((each: Json) => firstPassIn(each) ?? []);
  return inner.length === 0 ? null : Math.min(...inner);
}
