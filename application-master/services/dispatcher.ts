import * as z from 'zod';
import { SPLITS_FORGOTTEN } from '../../contract/services/service-names.ts';
import { MAXIMUM_SPLITS, type NextSplit, SplitPass, type StoredPass } from '../../contract/services/split-pass.ts';
import { TonyError } from '../../platform/errors.ts';

export interface Requester {
  readonly containerId: string;
  readonly role: string;
  readonly generation: number;
  /** True if the role's programs belong to a generation. Programs in other roles start and end independently. */
  readonly ranked: boolean;
}

const count = z.number().int().nonnegative();
const split = count.max(MAXIMUM_SPLITS - 1);

/** Format of the requests that training/data/reading/split-assigner.ts sends. */
const question = z.object({
  kind: z.enum(['shares', 'workers']),
  fingerprint: z.string().max(200),
  splits: count.max(MAXIMUM_SPLITS),
  passes: z.array(count).max(10),
  reading: count,
  share: z.object({ index: count, count: count.min(1) }),
  log: z.array(split).optional(),
  restored: z.boolean().optional(),
  at: count.optional(),
  /** Splits that the worker has finished. Used only if `kind` is `workers`. */
  done: z.array(split).optional(),
});

interface KeptPass {
  readonly role: string;
  readonly generation: number;
  readonly pass: SplitPass;
}

export interface StoredDispatcher {
  readonly passes: readonly { readonly key: string; readonly role: string; readonly generation: number; readonly pass: StoredPass }[];
}

/** Maximum number of dataset passes to remember. After a pass has been dropped, its readers must report their splits again. */
const KEPT_PASSES = 64;

/** Assigns dataset splits to readers. Uses neither a clock nor the network. The caller decides when to store the state. */
export class Dispatcher {
  readonly #passes = new Map<string, KeptPass>();

  static restore(stored: StoredDispatcher): Dispatcher {
    const dispatcher = new Dispatcher();
    for (const { key, role, generation, pass } of stored.passes) {
      dispatcher.#passes.set(key, { role, generation, pass: SplitPass.restore(pass) });
    }
    return dispatcher;
  }

  store(): StoredDispatcher {
    return { passes: [...this.#passes].map(([key, { role, generation, pass }]) => ({ key, role, generation, pass: pass.store() })) };
  }

  /**
   * Registers a reader, and records the splits that the reader has already received.
   * @returns true if the state must be stored
   * @throws TonyError DATA_INVALID
   */
  join(requester: Requester, body: unknown): boolean {
    const asked = parse(body);
    this.#forgetBefore(requester);
    const key = keyOf(requester, asked);
    const log = asked.log ?? [];
    const kept = this.#passes.get(key);
    if (kept !== undefined) {
      return kept.pass.register(readerOf(requester, asked), log);
    }
    const { kind, splits, fingerprint, share } = asked;
    const awaited = kind === 'shares' && asked.restored === true ? share.count : 0;
    const pass = new SplitPass({ kind, splits, fingerprint, awaited });
    pass.register(readerOf(requester, asked), log);
    this.#passes.set(key, { role: requester.role, generation: generationOf(requester), pass });
    for (const old of [...this.#passes.keys()].slice(0, -KEPT_PASSES)) {
      this.#passes.delete(old);
    }
    return true;
  }

  /** @returns the response with the reader's next split, and whether the state must be stored before the response is sent */
  next(requester: Requester, body: unknown): { readonly answer: NextSplit | typeof SPLITS_FORGOTTEN; readonly isNew: boolean } {
    const asked = parse(body);
    this.#forgetBefore(requester);
    const key = keyOf(requester, asked);
    const kept = this.#passes.get(key);
    const reader = readerOf(requester, asked);
    const before = kept?.pass.countOf(reader) ?? null;
    if (kept === undefined || before === null || (asked.at ?? 0) > before) {
      return { answer: SPLITS_FORGOTTEN, isNew: false };
    }
    // Move the pass to the end of the map: passes are dropped from the beginning, so the least recently used one is dropped first.
    this.#passes.delete(key);
    this.#passes.set(key, kept);
    const finished = (asked.done ?? []).map((split) => kept.pass.done(reader, split)).includes(true);
    const answer = kept.pass.next(reader, asked.at ?? 0);
    return { answer, isNew: finished || kept.pass.countOf(reader) !== before };
  }

  /**
   * Takes back splits from workers that are no longer running.
   * @returns true if such splits existed
   */
  sweep(isAlive: (containerId: string, generation: number) => boolean): boolean {
    let found = false;
    for (const { pass } of this.#passes.values()) {
      if (pass.description.kind !== 'workers') {
        continue;
      }
      for (const reader of pass.readers) {
        const [containerId, generation] = JSON.parse(reader) as [string, number];
        if (isAlive(containerId, generation)) {
          continue;
        }
        pass.removeReader(reader);
        found = true;
      }
    }
    return found;
  }

  get isEmpty(): boolean {
    return this.#passes.size === 0;
  }

  /** Drops the passes of the role's older generations. A new generation continues from its checkpoint and reports its splits again. */
  #forgetBefore(requester: Requester): void {
    const { role } = requester;
    const generation = generationOf(requester);
    for (const [key, kept] of this.#passes) {
      if (kept.role !== role) {
        continue;
      }
      if (kept.generation < generation) {
        this.#passes.delete(key);
      } else if (kept.generation > generation) {
        throw new TonyError('SERVICE_LOST', `generation ${generation} has ended`, { hint: 'The program is about to be stopped.' });
      }
    }
  }
}

type Question = z.infer<typeof question>;

function parse(body: unknown): Question {
  const parsed = question.safeParse(body);
  if (parsed.success) {
    return parsed.data;
  }
  const [issue] = parsed.error.issues;
  throw new TonyError('DATA_INVALID', `a request for splits is invalid: ${issue?.path.join('.')}: ${issue?.message}`);
}

/**
 * Identifies a reader. If `kind` is `shares`, several programs may read the same share one after the other, so the share is the identity.
 * If it is `workers`, the running program is the identity.
 */
function readerOf({ containerId, generation }: Requester, { kind, share }: Question): string {
  return kind === 'shares' ? String(share.index) : JSON.stringify([containerId, generation]);
}

function keyOf(requester: Requester, { kind, fingerprint, splits, passes, reading, share }: Question): string {
  return JSON.stringify([requester.role, generationOf(requester), kind, fingerprint, splits, passes, reading, share.count]);
}

function generationOf({ ranked, generation }: Requester): number {
  return ranked ? generation : 0;
}
