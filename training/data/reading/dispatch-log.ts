import { z } from 'zod';
import { TonyError } from '../../../platform/errors.ts';
import type { Json } from '../../../platform/json-value.ts';
import { otherFiles } from './file-set.ts';
import type { Share } from './share.ts';
import { isSamePass, type Pass, type PassPlace, type SplitGiver, splitGiver } from './split-giver.ts';

/** A pass that this reader, or another reader with which it resumes, has begun. */
interface PassLog {
  readonly pass: Pass;
  /** The number of the pass. It is the same for all readers, because they begin the passes in the same order. */
  readonly number: number;
  /** The splits that this reader has received, in order. */
  readonly log: number[];
  /** True if a stored state contains the pass. Other readers may then have logs of it too. */
  readonly isRestored: boolean;
  /** True if all splits of the pass have been assigned. */
  readonly isOver: boolean;
  /** True if this reader has begun the pass, in this process or before its state was stored; false if only another reader has. */
  isBegun: boolean;
  isOpen: boolean;
  registration: Registration | null;
}

/** The registration of a log with the giver of splits. */
interface Registration {
  readonly giver: SplitGiver;
  readonly place: PassPlace;
  /** Resolves once the giver knows the log. */
  readonly done: Promise<void>;
}

/** A position in a stream of dispatched splits: the pass, the index in the reader's log of that pass, and the position in that split. */
export type DispatchedPlace = { readonly dispatched: readonly [pass: number, index: number, at: Json] };

/** The stored form of the log of one pass. */
const storedPass = z.object({
  number: z.int(),
  fingerprint: z.string(),
  splits: z.int(),
  passes: z.array(z.int()),
  log: z.array(z.int()),
});
type StoredPass = z.infer<typeof storedPass>;

/**
 * The splits that a reader has received, in order. The order determines which elements are mixed or batched together, and it depends on
 * read-ahead. Therefore the log is part of the reader's state, and a resumed reader receives the same splits again.
 */
export class DispatchLog {
  readonly #share: Share;
  readonly #giver: SplitGiver | null;
  readonly #logs: PassLog[] = [];
  /** The number of the earliest pass that this reader's state contains; 0 for a new reader. */
  readonly #first: number;
  /**
   * The highest `#first` of all readers. All splits of earlier passes have been assigned, because a reader leaves a pass only once all of
   * its splits are assigned.
   */
  readonly #farthest: number;

  /**
   * @param stored the output of `state`.
   * @param all one output of `state` for each share, if the readers of all shares resume together. This reader registers an empty log for a
   *   pass that only other readers have begun, because the giver waits for the logs of all readers.
   * @param giver null for the giver of this process.
   * @throws TonyError DATA_INVALID if a stored state does not have the form of such an output.
   */
  constructor(share: Share, stored: Json, all: readonly Json[], giver: SplitGiver | null) {
    this.#share = share;
    this.#giver = giver;
    const own = parseState(stored);
    const others = all.map(parseState).filter((passes) => passes.length > 0);
    this.#first = firstNumber(own);
    this.#farthest = Math.max(0, ...others.map(firstNumber));
    for (const pass of own) {
      this.#add(pass, { log: pass.log, isRestored: true, isBegun: true });
    }
    for (const pass of others.flat()) {
      if (pass.number >= this.#first && this.#find(pass) === undefined) {
        this.#add(pass, { log: [], isRestored: true, isBegun: false });
      }
    }
  }

  /**
   * Opens a pass, which is either new or known from a stored state.
   * @throws TonyError USAGE if the pass is already open, because a dataset contains the same dispatched files twice.
   */
  open(pass: Pass): OpenPass {
    const found = this.#find(pass) ?? this.#add({ ...pass, number: this.#nextNumber() }, { log: [], isRestored: false, isBegun: true });
    if (found.isOpen) {
      throw new TonyError('USAGE', 'the same files are dispatched twice at the same time', {
        hint: 'Call dispatch() after joining the datasets, and use different files in each of them.',
      });
    }
    found.isOpen = true;
    found.isBegun = true;
    return new OpenPass(found, (signal) => this.#register(found, signal));
  }

  /** Registers the logs of all restored passes. Until then the giver assigns no split of these passes to any reader. */
  begin(signal: AbortSignal): void {
    for (const each of this.#logs) {
      if (each.isRestored && !each.isOver) {
        this.#register(each, signal);
      }
    }
  }

  /**
   * The state for checkpoints; null if nothing is dispatched.
   * @param at the reader's position. All readers have finished the passes before it, so the state omits them.
   */
  state(at: Json): Json {
    const first = firstPassIn(at) ?? 0;
    // A pass that only other readers have begun is omitted, because its entry would mean that this reader has reached it.
    const needed = this.#logs.filter(({ number, isBegun }) => isBegun && number >= first);
    return needed.length === 0 ? null : needed.map(({ pass, number, log }) => ({ ...pass, number, log: [...log] }));
  }

  #find(pass: Pass): PassLog | undefined {
    return this.#logs.find((each) => isSamePass(each.pass, pass));
  }

  /**
   * The number for a pass that no stored state contains. Either the pass is new, or all other readers have finished it and this reader has
   * not yet reached it.
   */
  #nextNumber(): number {
    const taken = new Set(this.#logs.map(({ number }) => number));
    let number = this.#first;
    while (taken.has(number)) {
      number++;
    }
    return number;
  }

  #add(
    { fingerprint, splits, passes, number }: Pass & { readonly number: number },
    how: Pick<PassLog, 'log' | 'isRestored' | 'isBegun'>,
  ): PassLog {
    const pass = { fingerprint, splits, passes };
    const added = { ...how, pass, number, isOver: number < this.#farthest, isOpen: false, registration: null };
    this.#logs.push(added);
    return added;
  }

  #register(each: PassLog, signal: AbortSignal): Registration {
    if (each.registration !== null) {
      return each.registration;
    }
    const giver = this.#giver ?? splitGiver(this.#share);
    const place: PassPlace = { ...each.pass, kind: 'shares', reading: giver.begin(each.pass, this.#share), share: this.#share };
    const done = giver.join(place, each.log, each.isRestored, signal);
    // The caller receives the error where it awaits the promise.
    done.catch(() => {});
    each.registration = { giver, place, done };
    return each.registration;
  }
}

export class OpenPass {
  readonly #log: PassLog;
  readonly #register: (signal: AbortSignal) => Registration;

  constructor(log: PassLog, register: (signal: AbortSignal) => Registration) {
    this.#log = log;
    this.#register = register;
  }

  get number(): number {
    return this.#log.number;
  }

  /** Returns entry `at` of the log. Requests a split from the giver if the log ends before `at`; returns null after the last split. */
  async split(at: number, signal: AbortSignal): Promise<number | null> {
    const { log, isOver } = this.#log;
    const known = log[at];
    if (isOver) {
      return known ?? null;
    }
    // The log must be registered even if the split is already known, because the giver makes other readers wait for it.
    const { giver, place, done } = this.#register(signal);
    await done;
    if (known !== undefined) {
      return known;
    }
    const next = await giver.next(place, log, signal);
    // No other code adds to the log: a reader never opens a pass twice at the same time.
    if (next !== null) {
      log.push(next);
    }
    return next;
  }

  close(): void {
    this.#log.isOpen = false;
  }
}

function parseState(stored: Json): StoredPass[] {
  const parsed = z.array(storedPass).safeParse(stored ?? []);
  if (!parsed.success) {
    throw otherFiles();
  }
  return parsed.data;
}

/** The number of the earliest pass in a reader's state, which omits passes that all readers have finished. */
function firstNumber(passes: readonly StoredPass[]): number {
  return passes.length === 0 ? 0 : Math.min(...passes.map(({ number }) => number));
}

/** Returns the place in dispatched splits if the position is one, otherwise null. */
export function dispatchedPlace(at: Json): DispatchedPlace['dispatched'] | null {
  return typeof at === 'object' && at !== null && 'dispatched' in at ? (at as DispatchedPlace).dispatched : null;
}

/** The number of the earliest pass in a reader's position; null if it contains none. */
function firstPassIn(at: Json): number | null {
  if (typeof at !== 'object' || at === null) {
    return null;
  }
  const place = dispatchedPlace(at);
  if (place !== null) {
    return place[0];
  }
  const inner = Object.values(at).flatMap((each: Json) => firstPassIn(each) ?? []);
  return inner.length === 0 ? null : Math.min(...inner);
}
