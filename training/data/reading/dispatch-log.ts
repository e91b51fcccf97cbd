import * as z from 'zod';
import { TonyError } from '../../../platform/errors.ts';
import type { Json } from '../../../platform/json-value.ts';
import { otherFiles } from './file-set.ts';
import type { Share } from './share.ts';
import { type Pass, type PassPlace, passId, type SplitAssigner, splitAssigner } from './split-assigner.ts';

/** A pass over dispatched data, begun by this reader or by another reader that has resumed from the same checkpoint. */
interface PassLog {
  readonly pass: Pass;
  /** The pass number. All readers begin the passes in the same order, so all of them use the same numbers. */
  readonly number: number;
  readonly log: number[];
  /** True if a checkpoint contains the pass. Other readers may then have logs for the pass, too. */
  readonly isRestored: boolean;
  readonly isOver: boolean;
  /** True if this reader has begun the pass, either in this process or before the checkpoint. False if only other readers have begun it. */
  isBegun: boolean;
  isOpen: boolean;
  registration: Registration | null;
}

interface Registration {
  readonly assigner: SplitAssigner;
  readonly place: PassPlace;
  readonly done: Promise<void>;
}

/** A position in a stream of dispatched splits: the pass, the index in the reader's log of that pass, and the position in the split. */
export type DispatchedPlace = { readonly dispatched: readonly [pass: number, index: number, at: Json] };

const storedPass = z.object({
  number: z.int(),
  fingerprint: z.string(),
  splits: z.int(),
  passes: z.array(z.int()),
  log: z.array(z.int()),
});
type PassState = z.infer<typeof storedPass>;

/**
 * The splits that a reader has received, in order. The order depends on how far the readers have read ahead, and it determines which
 * elements are shuffled and batched together. Checkpoints therefore contain the log, and a reader that resumes receives the same splits
 * again.
 */
export class DispatchLog {
  readonly #share: Share;
  readonly #assigner: SplitAssigner | null;
  readonly #logs: PassLog[] = [];
  /** Number of the earliest pass in this reader's state, or 0 for a new reader. */
  readonly #first: number;
  /**
   * Highest `#first` among all readers. All splits of passes with a lower number have been assigned, because a reader begins a pass only
   * after all splits of the previous pass have been assigned.
   */
  readonly #farthest: number;

  /**
   * Restores a reader's log. Passes begun only by other readers get empty logs, because the assigner waits for the logs of all readers.
   * @param stored the result of this reader's `state`, from a checkpoint.
   * @param all the results of `state` for all shares, if all readers resume together. Otherwise empty.
   * @param assigner null for this process's assigner.
   * @throws TonyError DATA_INVALID if a stored state is malformed.
   */
  constructor(share: Share, stored: Json, all: readonly Json[], assigner: SplitAssigner | null) {
    this.#share = share;
    this.#assigner = assigner;
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
   * Opens a pass, which may be new or restored from a checkpoint.
   * @throws TonyError USAGE if the pass is open already. This happens if a dataset contains the same dispatched files twice.
   */
  open(pass: Pass): OpenPass {
    const found = this.#find(pass) ?? this.#add({ ...pass, number: this.#nextNumber() }, { log: [], isRestored: false, isBegun: true });
    if (found.isOpen) {
      throw new TonyError('USAGE', 'the same files are dispatched twice at the same time', {
        hint: 'Call dispatch() on the combined dataset, and use different files in each of its parts.',
      });
    }
    found.isOpen = true;
    found.isBegun = true;
    return new OpenPass(found, (signal) => this.#register(found, signal));
  }

  /**
   * Registers the logs of all passes from the checkpoint. The assigner waits for the logs of all readers before it assigns further splits
   * in these passes.
   */
  begin(signal: AbortSignal): void {
    for (const each of this.#logs) {
      if (each.isRestored && !each.isOver) {
        this.#register(each, signal);
      }
    }
  }

  /**
   * Returns the state for checkpoints, or null if no data is dispatched.
   * @param at the reader's position. The state does not contain earlier passes, which all readers have finished.
   */
  state(at: Json): Json {
    const first = firstPassIn(at) ?? 0;
    // A pass in the state counts as begun by this reader, so the state must not contain passes begun only by other readers.
    const needed = this.#logs.filter(({ number, isBegun }) => isBegun && number >= first);
    return needed.length === 0 ? null : needed.map(({ pass, number, log }) => ({ ...pass, number, log: [...log] }));
  }

  #find(pass: Pass): PassLog | undefined {
    const id = passId(pass);
    return this.#logs.find((each) => passId(each.pass) === id);
  }

  /** Returns the number for a pass that is not in any checkpoint. Such a pass is new, or all other readers have finished it already. */
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
    const assigner = this.#assigner ?? splitAssigner(this.#share);
    const place: PassPlace = { ...each.pass, kind: 'shares', reading: assigner.begin(each.pass, this.#share), share: this.#share };
    const done = assigner.join(place, each.log, each.isRestored, signal);
    // `OpenPass.split` may await `done` much later, so without this handler, a rejection would crash the process.
    done.catch(() => {});
    each.registration = { assigner, place, done };
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

  /**
   * Returns entry `at` of the log, or null after the last split. Requests a split from the assigner if the log does not contain the entry
   * yet.
   */
  async split(at: number, signal: AbortSignal): Promise<number | null> {
    const { log, isOver } = this.#log;
    const known = log[at];
    if (isOver) {
      return known ?? null;
    }
    // The log must be registered even if the split is known, because other readers wait for the registration.
    const { assigner, place, done } = this.#register(signal);
    await done;
    if (known !== undefined) {
      return known;
    }
    const next = await assigner.next(place, log, signal);
    // No other call changes the log meanwhile, because a pass can be open only once.
    if (next !== null) {
      log.push(next);
    }
    return next;
  }

  close(): void {
    this.#log.isOpen = false;
  }
}

function parseState(stored: Json): PassState[] {
  const parsed = z.array(storedPass).safeParse(stored ?? []);
  if (!parsed.success) {
    throw otherFiles();
  }
  return parsed.data;
}

function firstNumber(passes: readonly PassState[]): number {
  return passes.length === 0 ? 0 : Math.min(...passes.map(({ number }) => number));
}

/** Returns `at` if it is a position in dispatched splits, and null otherwise. */
export function dispatchedPlace(at: Json): DispatchedPlace['dispatched'] | null {
  return typeof at === 'object' && at !== null && 'dispatched' in at ? (at as DispatchedPlace).dispatched : null;
}

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
