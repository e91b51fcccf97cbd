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
  isOpen: boolean;
  joined: { readonly place: PassPlace; readonly done: Promise<void> } | null;
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

  /** @param giver that of this process unless told. */
  constructor(share: Share, stored: Json, giver: SplitGiver | null) {
    this.#share = share;
    this.#giver = giver;
    for (const [number, key, log] of (stored ?? []) as [number, string, number[]][]) {
      this.#passes.push({ number, key, log: [...log], restored: true, isOpen: false, joined: null });
    }
  }

  /**
   * The pass as it is known, or a new one.
   * @throws TonyError USAGE when it is being read already: one dataset twice in another.
   */
  open(what: { readonly fingerprint: string; readonly splits: number; readonly passes: readonly number[] }): OpenPass {
    const key = JSON.stringify([what.fingerprint, what.splits, what.passes]);
    let pass = this.#passes.find((each) => each.key === key);
    if (pass === undefined) {
      pass = { number: (this.#passes.at(-1)?.number ?? -1) + 1, key, log: [], restored: false, isOpen: false, joined: null };
      this.#passes.push(pass);
    }
    if (pass.isOpen) {
      throw new TonyError('USAGE', 'the same files are dispatched twice at the same time', {
        hint: 'Put dispatch() behind what joins the datasets, and use different files in each of them.',
      });
    }
    pass.isOpen = true;
    return new OpenPass(pass, { kind: 'shares', ...what, share: this.#share }, this.#giver ?? splitGiver(this.#share));
  }

  /**
   * For checkpoints; null when nothing is dispatched.
   * @param at where the reader stands: passes that lie behind it are over for all.
   */
  state(at: Json): Json {
    const first = firstPassIn(at) ?? 0;
    const needed = this.#passes.filter(({ number }) => number >= first);
    return needed.length === 0 ? null : needed.map(({ number, key, log }) => [number, key, [...log]]);
  }
}

export class OpenPass {
  readonly #pass: PassLog;
  readonly #what: Omit<PassPlace, 'reading'>;
  readonly #giver: SplitGiver;

  constructor(pass: PassLog, what: Omit<PassPlace, 'reading'>, giver: SplitGiver) {
    this.#pass = pass;
    this.#what = what;
    this.#giver = giver;
  }

  get number(): number {
    return this.#pass.number;
  }

  /** Number `at` of the log, given out now if it has not come so far; null behind the last one. */
  async split(at: number, signal: AbortSignal): Promise<number | null> {
    const pass = this.#pass;
    const known = pass.log[at];
    // The giver is told first what this reader has: others may wait for it.
    pass.joined ??= this.#join(signal);
    await pass.joined.done;
    if (known !== undefined) return known;
    const next = await this.#giver.next(pass.joined.place, pass.log, signal);
    // Nobody else appends: a reader opens a pass once at a time.
    if (next !== null) pass.log.push(next);
    return next;
  }

  close(): void {
    this.#pass.isOpen = false;
  }

  #join(signal: AbortSignal): NonNullable<PassLog['joined']> {
    const place = { ...this.#what, reading: this.#giver.begin(JSON.stringify([this.#pass.key, this.#what.share])) };
    const done = this.#giver.join(place, this.#pass.log, this.#pass.restored, signal);
    done.catch(() => {});
    return { place, done };
  }
}

/** The earliest pass that a reader's place speaks of; null when it speaks of none. */
function firstPassIn(at: Json): number | null {
  if (typeof at !== 'object' || at === null) return null;
  if (!Array.isArray(at) && 'dispatched' in at) return (at as unknown as DispatchedPlace).dispatched[0];
  const inner = Object.values(at).flatMap((each: Json) => firstPassIn(each) ?? []);
  return inner.length === 0 ? null : Math.min(...inner);
}
