import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import * as z from 'zod';
import { parseJson } from '../../platform/json-value.ts';
import { readIfStored } from '../../storage/read-if-stored.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import { MANIFEST } from './checkpoint-format.ts';
import type { CheckpointThread } from './checkpoint-thread.ts';

/* Small JSON files in a checkpoint folder. */

export function encodeMark(mark: object): Buffer {
  return Buffer.from(`${JSON.stringify(mark)}\n`);
}

/** Resolves with the mark in the file, or null if the file is missing or invalid. */
export async function readMark<T>(storage: Storage, uri: string, schema: z.ZodType<T>): Promise<T | null> {
  const bytes = await readIfStored(storage, uri);
  return schema.safeParse(parseJson(bytes?.toString('utf8') ?? '')).data ?? null;
}

const HELD = '.held';
const BEST = 'best.json';
const END = 'end.json';
const END_NOW_MS = 10_000;

const step = z.number().int().nonnegative();

/** Contents of best.json: the best checkpoint, and the metric by which an evaluator chose it. */
const bestSchema = z.object({
  step,
  metric: z.string(),
  value: z.number(),
  mode: z.enum(['min', 'max']),
});

export type BestCheckpoint = Readonly<z.infer<typeof bestSchema>>;

const heldSchema = z.object({ step });
const endSchema = z.object({ jobId: z.string() });

/**
 * Reads and writes the marks in a checkpoint folder. The file best.json marks the best checkpoint, the files in .held mark the checkpoints
 * that tasks are reading, and end.json shows that the program has ended.
 */
export class CheckpointMarks {
  readonly #storage: Storage;
  readonly #dir: string;
  readonly #openThread: () => CheckpointThread | null;

  /** @param openThread returns the thread that writes the end mark when the process exits. */
  constructor(storage: Storage, dir: string, openThread: () => CheckpointThread | null) {
    this.#storage = storage;
    this.#dir = dir;
    this.#openThread = openThread;
  }

  /** Resolves with the steps of the checkpoints that pruning must keep: the best checkpoint and those that tasks are reading. */
  async protected(): Promise<Set<number>> {
    const held = (await this.#storage.list(joinUri(this.#dir, HELD))).map(({ uri }) => readMark(this.#storage, uri, heldSchema));
    const marks = [await this.best(), ...(await Promise.all(held))];
    return new Set(marks.flatMap((mark) => mark?.step ?? []));
  }

  /**
   * Marks a checkpoint as the best one, replacing any earlier mark. Pruning keeps the marked checkpoint.
   * @returns false, with the previous mark restored, if the checkpoint does not exist.
   */
  async setBest(best: BestCheckpoint): Promise<boolean> {
    const uri = joinUri(this.#dir, BEST);
    const before = await readIfStored(this.#storage, uri);
    await this.#storage.write(uri, encodeMark(best));
    if (await this.#exists(best.step)) {
      return true;
    }
    await (before === null ? this.#storage.remove(uri) : this.#storage.write(uri, before));
    return false;
  }

  async best(): Promise<BestCheckpoint | null> {
    return await readMark(this.#storage, joinUri(this.#dir, BEST), bestSchema);
  }

  /** Records that the program has ended, so that readers stop waiting for checkpoints. */
  async setEnd(jobId: string): Promise<void> {
    await this.#storage.write(this.#endUri, encodeMark({ jobId }));
  }

  /** Does the same as `setEnd`, but blocks, because an exiting process cannot await a promise. Returns true if the mark was written. */
  setEndNow(jobId: string): boolean {
    try {
      if (this.#dir.startsWith('file://')) {
        writeFileSync(fileURLToPath(this.#endUri), encodeMark({ jobId }));
        return true;
      }
      return this.#openThread()?.markEndNow(this.#dir, jobId, END_NOW_MS) ?? false;
    } catch {
      return false;
    }
  }

  /** Removes the end mark written by an earlier program. Must be called before training begins. */
  async clearEnd(): Promise<void> {
    if ((await this.#storage.stat(this.#endUri)) !== null) {
      await this.#storage.remove(this.#endUri);
    }
  }

  /** @param jobId the application whose program may have ended, or null for any application. */
  async hasEnded(jobId: string | null): Promise<boolean> {
    const end = await readMark(this.#storage, this.#endUri, endSchema);
    return end !== null && (jobId === null || end.jobId === jobId);
  }

  get #endUri(): string {
    return joinUri(this.#dir, END);
  }

  /**
   * Protects a checkpoint from pruning while `holder` reads it. The protection lasts until `release` or the holder's next `hold`.
   * @returns false if the checkpoint does not exist.
   */
  async hold(holder: string, step: number): Promise<boolean> {
    await this.#storage.write(this.#heldUri(holder), encodeMark({ step }));
    if (await this.#exists(step)) {
      return true;
    }
    await this.release(holder);
    return false;
  }

  async release(holder: string): Promise<void> {
    await this.#storage.remove(this.#heldUri(holder));
  }

  #heldUri(holder: string): string {
    // HDFS rejects file names with a colon.
    return joinUri(this.#dir, HELD, `${holder.replace(/[^A-Za-z0-9_-]/g, '-')}.json`);
  }

  async #exists(step: number): Promise<boolean> {
    return (await this.#storage.stat(joinUri(this.#dir, `step-${step}`, MANIFEST))) !== null;
  }
}
