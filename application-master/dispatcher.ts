import { z } from 'zod';
import { TonyError } from '../conf/errors.ts';
import { MAXIMUM_SPLITS, type NextSplit, SplitPass, type StoredPass } from '../training/datasets/split-pass.ts';
import { SPLITS_FORGOTTEN } from '../training/service-names.ts';

/** Whose program asks. */
export interface Asker {
  readonly containerId: string;
  readonly role: string;
  /** Of the program that asks. */
  readonly generation: number;
  /** Its role's programs form generations together; the programs of others come and go by themselves. */
  readonly ranked: boolean;
}

const count = z.number().int().nonnegative();
const split = count.max(MAXIMUM_SPLITS - 1);

/** As training/datasets/split-giver.ts asks. */
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
  /** Of a worker: splits that it has finished. */
  done: z.array(split).optional(),
});

/** A pass, and whose it is. */
interface Kept {
  readonly role: string;
  /** 0 for roles that form none. */
  readonly generation: number;
  readonly pass: SplitPass;
}

export interface StoredDispatcher {
  readonly passes: readonly { readonly key: string; readonly role: string; readonly generation: number; readonly pass: StoredPass }[];
}

/** Passes beyond these that nobody has asked for in a long time are forgotten; whoever asks then is told to say again what he has. */
const KEPT_PASSES = 64;

/** Which splits of which datasets have been given to whom. Knows no clock and no network: what has to be written down, and when, is others' affair. */
export class Dispatcher {
  readonly #passes = new Map<string, Kept>();

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
   * A reader says what it has got so far.
   * @returns whether something is to be written down.
   * @throws TonyError DATA_INVALID
   */
  join(asker: Asker, body: unknown): boolean {
    const asked = parse(body);
    this.#forgetBefore(asker);
    const key = keyOf(asker, asked);
    const log = asked.log ?? [];
    const kept = this.#passes.get(key);
    if (kept !== undefined) return kept.pass.tell(readerOf(asker, asked), log);
    const { kind, splits, fingerprint, share } = asked;
    const awaited = kind === 'shares' && asked.restored === true ? share.count : 0;
    const pass = new SplitPass({ kind, splits, fingerprint, awaited });
    pass.tell(readerOf(asker, asked), log);
    this.#passes.set(key, { role: asker.role, generation: generationOf(asker), pass });
    for (const old of [...this.#passes.keys()].slice(0, -KEPT_PASSES)) this.#passes.delete(old);
    return true;
  }

  /** @returns the answer, and whether it may be given only when it is written down. */
  next(asker: Asker, body: unknown): { readonly answer: NextSplit | typeof SPLITS_FORGOTTEN; readonly isNew: boolean } {
    const asked = parse(body);
    this.#forgetBefore(asker);
    const key = keyOf(asker, asked);
    const kept = this.#passes.get(key);
    const reader = readerOf(asker, asked);
    const before = kept?.pass.countOf(reader) ?? null;
    if (kept === undefined || before === null || (asked.at ?? 0) > before) return { answer: SPLITS_FORGOTTEN, isNew: false };
    // Those that are in use stay.
    this.#passes.delete(key);
    this.#passes.set(key, kept);
    const finished = (asked.done ?? []).map((split) => kept.pass.done(reader, split)).includes(true);
    const answer = kept.pass.next(reader, asked.at ?? 0);
    return { answer, isNew: finished || kept.pass.countOf(reader) !== before };
  }

  /**
   * Takes back what workers held that live no more.
   * @returns whether there were any.
   */
  sweep(isAlive: (containerId: string, generation: number) => boolean): boolean {
    let found = false;
    for (const { pass } of this.#passes.values()) {
      if (pass.description.kind !== 'workers') continue;
      for (const reader of pass.readers) {
        const [containerId, generation] = JSON.parse(reader) as [string, number];
        if (isAlive(containerId, generation)) continue;
        pass.leave(reader);
        found = true;
      }
    }
    return found;
  }

  get isEmpty(): boolean {
    return this.#passes.size === 0;
  }

  /** A new generation of a role begins where its checkpoint stands: what the old one had is told again. */
  #forgetBefore(asker: Asker): void {
    const { role } = asker;
    const generation = generationOf(asker);
    for (const [key, kept] of this.#passes) {
      if (kept.role !== role) continue;
      if (kept.generation < generation) this.#passes.delete(key);
      else if (kept.generation > generation) {
        throw new TonyError('SERVICE_LOST', `generation ${generation} is over`, { hint: 'The program is about to be ended.' });
      }
    }
  }
}

type Question = z.infer<typeof question>;

function parse(body: unknown): Question {
  const parsed = question.safeParse(body);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new TonyError('DATA_INVALID', `a question about splits is not as it should be: ${issue?.path.join('.')}: ${issue?.message}`);
}

/** A share is one reader, whoever reads it; a worker is one as long as its program lives. */
function readerOf({ containerId, generation }: Asker, { kind, share }: Question): string {
  return kind === 'shares' ? String(share.index) : JSON.stringify([containerId, generation]);
}

function keyOf(asker: Asker, { kind, fingerprint, splits, passes, reading, share }: Question): string {
  return JSON.stringify([asker.role, generationOf(asker), kind, fingerprint, splits, passes, reading, share.count]);
}

function generationOf({ ranked, generation }: Asker): number {
  return ranked ? generation : 0;
}
