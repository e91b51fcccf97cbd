import * as z from 'zod';
import { TonyError } from '../../../platform/errors.ts';
import type { Json } from '../../../platform/json-value.ts';
import { otherFiles } from './file-set.ts';
import type { Share } from './share.ts';
import { type Pass, type PassPlace, passKey, type SplitAssigner, splitAssigner } from './split-assigner.ts';

/** A pass over dispatched data. This reader, or another reader that resumed from the same checkpoint, has begun it. */
interface PassLog {
  readonly pass: Pass;
  /** The pass number. All readers begin the passes in the same order, so the number is the same for all readers. */
  readonly number: number;
  readonly log: number[];
  /** True if a stored state contains the pass. Other readers may then have logs of the pass too. */
  readonly isRestored: boolean;
  readonly isOver: boolean;
  /**
   * True if this reader has begun the pass, either in this process or in the earlier one whose state it restored. False if only other
   * readers have begun it.
   */
  isBegun: boolean;
  isOpen: boolean;
  registration: Registration | null;
}

interface Registration {
  readonly assigner: SplitAssigner;
  readonly place: PassPlace;
  readonly done: Promise<void>;
}

/** A position in a stream of dispatched splits: the pass, the index in the reader's log of that pass, and the position in that split. */
export type DispatchedPlace = { readonly dispatched: readonly [pass: number, index: number, at: Json] };

const storedPass = z.object({
  number: z.int(),
  fingerprint: z.string(),
  splits: z.int(),
  passes: z.array(z.int()),
  log: z.array(z.int()),
});
type StoredPass = z.infer<typeof storedPass>;

/**
 * The splits that a reader has received, in order. The order determines which elements are mixed or batched together, and depends on how
 * far each reader read ahead. The log is therefore part of the reader's state, and a resumed reader receives the same splits again.
 */
export class DispatchLog {
  readonly #share: Share;
  readonly #assigner: SplitAssigner | null;
  readonly #logs: PassLog[] = [];
  /** The number of the earliest pass in this reader's state; 0 for a new reader. */
  readonly #first: number;
  /**
   * The highest `#first` of all readers. All splits of earlier passes have been assigned, because a reader starts a pass only after all
   * splits of the previous pass have been assigned.
   */
  readonly #farthest: number;

  /**
   * Restores the log of a reader. With `all`, also registers empty logs for passes that only other readers have begun, because the assigner
   * waits for the logs of all readers.
   * @param stored the output of `state`.
   * @param all one output of `state` per share, if the readers of all shares resume together.
   * @param assigner null means this process's assigner.
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
   * Opens a new pass, or a pass that a stored state contains.
   * @throws TonyError USAGE if the pass is already open, which means that a dataset contains the same dispatched files twice.
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

  /**
   * Registers the logs of all restored passes. The assigner waits for the logs of all readers before it assigns more splits of these
   * passes.
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
   * @param at the reader's position. The state omits earlier passes, which all readers have finished.
   */
  state(at: Json): Json {
    const first = firstPassIn(at) ?? 0;
    // Omits passes that only other readers have begun. An entry in the state would mean that this reader has begun the pass.
    const needed = this.#logs.filter(({ number, isBegun }) => isBegun && number >= first);
    return needed.length === 0 ? null : needed.map(({ pass, number, log }) => ({ ...pass, number, log: [...log] }));
  }

  #find(pass: Pass): PassLog | undefined {
    const key = passKey(pass);
    return this.#logs.find((each) => passKey(each.pass) === key);
  }

  /**
   * Returns the number for a pass that is absent from all stored states. Either the pass is new, or all other readers have already finished
   * it.
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
    const assigner = this.#assigner ?? splitAssigner(this.#share);
    const place: PassPlace = { ...each.pass, kind: 'shares', reading: assigner.begin(each.pass, this.#share), share: this.#share };
    const done = assigner.join(place, each.log, each.isRestored, signal);
    // Marks a rejection as handled: `OpenPass.split` may await the promise much later.
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

  /** Returns entry `at` of the log, or null after the last split. Requests a split from the assigner if the log has no such entry yet. */
  async split(at: number, signal: AbortSignal): Promise<number | null> {
    const { log, isOver } = this.#log;
    const known = log[at];
    if (isOver) {
      return known ?? null;
    }
    // Registers the log even if the split is already known, because other readers wait for the registration.
    const { assigner, place, done } = this.#register(signal);
    await done;
    if (known !== undefined) {
      return known;
    }
    const next = await assigner.next(place, log, signal);
    // Only this call appends to the log, because a pass cannot be open twice at the same time.
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

function firstNumber(passes: readonly StoredPass[]): number {
  return passes.length === 0 ? 0 : Math.min(...passes.map(({ number }) => number));
}

/** If `at` is a position in dispatched splits, returns that position. Otherwise, returns null. */
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
