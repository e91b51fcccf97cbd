import { TonyError } from '../../conf/errors.ts';
import type { Share } from './read-context.ts';
import { type PassPlace, type SplitGiver, splitGiver } from './split-giver.ts';
import type { Json } from './stream.ts';

/** A pass over the splits as one reader has got them. */
interface PassLog {
  /** Number of the pass in this reader's life. */
  readonly number: number;
  readonly key: string;
  readonly log: number[];
  readonly restored: boolean;
  /** Nothing is left of it to be given out. */
  readonly isOver: boolean;
  /** By this reader, here or before its state was stored; otherwise only another one is known to have come so far. */
  isBegun: boolean;
  isOpen: boolean;
  joined: Joined | null;
}

/** The giver has been told, or is being told, what the reader had got. */
interface Joined {
  readonly giver: SplitGiver;
  readonly place: PassPlace;
  readonly done: Promise<void>;
}

/** Where a stream of dispatched splits stands: number of the pass, number of the split in the reader's log, and the place in it. */
export interface DispatchedPlace {
  readonly dispatched: readonly [pass: number, split: number, at: Json];
}

/**
 * Which splits a reader has got, in order. What is mixed or batched behind them depends on it, also on what is read ahead: so it is a part of
 * the reader's state, and a reader that goes on from there gets them again.
 */
export class DispatchLog {
  readonly #share: Share;
  readonly #giver: SplitGiver | null;
  readonly #passes: PassLog[] = [];
  /** Number of the pass that this reader stood in when it began. */
  readonly #first: number;
  /** The same of the reader that was ahead of all others. */
  readonly #farthest: number;

  /**
   * Numbers of passes are the same for all readers: they begin them in the same order.
   *
   * @param stored what `state` gave.
   * @param all the same of the readers of all shares, where they go on together: of a pass that another one has begun, this one says that it has
   *   got nothing; and what another one has left behind has been given out to the end.
   * @param giver that of this process unless told.
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
   * The pass as it is known, or a new one.
   * @throws TonyError USAGE when it is being read already: one dataset twice in another.
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

  /** What this reader had is told at once of all passes: others, which may be ahead of it or behind, get nothing before they know it. */
  begin(signal: AbortSignal): void {
    for (const pass of this.#passes) if (pass.restored && !pass.isOver) this.#join(pass, signal);
  }

  /** One that nobody told of: new, or left behind by all others while this reader has yet to come through it. */
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
    // Heard when it is awaited.
    done.catch(() => {});
    return { giver, place, done };
  }

  /**
   * For checkpoints; null when nothing is dispatched.
   * @param at where the reader stands: passes that lie behind it are over for all.
   */
  state(at: Json): Json {
    const first = firstPassIn(at) ?? 0;
    // Of those that others have begun they tell themselves: here they would say that this reader had come so far.
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

  /** Number `at` of the log, given out now if it has not come so far; null behind the last one. */
  async split(at: number, signal: AbortSignal): Promise<number | null> {
    const { log, isOver } = this.#pass;
    const known = log[at];
    if (isOver) return known ?? null;
    // The giver is told first what this reader has: others may wait for it.
    const { giver, place, done } = this.#join(signal);
    await done;
    if (known !== undefined) return known;
    const next = await giver.next(place, log, signal);
    // Nobody else appends: a reader opens a pass once at a time.
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

/** Of the pass that a reader stands in; it remembers none before. */
function firstNumber(passes: StoredPasses): number {
  return passes.length === 0 ? 0 : Math.min(...passes.map(([number]) => number));
}

/** The earliest pass that a reader's place speaks of; null when it speaks of none. */
function firstPassIn(at: Json): number | null {
  if (typeof at !== 'object' || at === null) return null;
  if (!Array.isArray(at) && 'dispatched' in at) return (at as unknown as DispatchedPlace).dispatched[0];
  const inner = Object.values(at).flatMap((each: Json) => firstPassIn(each) ?? []);
  return inner.length === 0 ? null : Math.min(...inner);
}
