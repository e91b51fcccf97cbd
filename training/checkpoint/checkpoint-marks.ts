import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import * as z from 'zod';
import { readIfStored } from '../../storage/read-if-stored.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import { MANIFEST } from './checkpoint-format.ts';
import type { CheckpointThread } from './checkpoint-thread.ts';
import { encodeMark, readMark } from './mark-file.ts';

const HELD = '.held';
const BEST = 'best.json';
const END = 'end.json';
const END_NOW_MS = 10_000;

const step = z.number().int().nonnegative();

/** The contents of best.json: the best checkpoint and the metric by which an evaluator chose it. */
const bestSchema = z.object({
  step,
  metric: z.string(),
  value: z.number(),
  mode: z.enum(['min', 'max']),
});

export type BestCheckpoint = Readonly<z.infer<typeof bestSchema>>;

const heldSchema = z.object({ step });
const endSchema = z.object({ applicationId: z.string() });

/**
 * Reads and writes the marks in a checkpoint folder. They mark the best checkpoint (best.json), the checkpoints that tasks are reading
 * (.held), and the end of the program (end.json).
 */
export class CheckpointMarks {
  readonly #storage: Storage;
  readonly #dir: string;
  readonly #openThread: () => CheckpointThread | null;

  /** @param openThread returns the thread that writes on behalf of an exiting process. */
  constructor(storage: Storage, dir: string, openThread: () => CheckpointThread | null) {
    this.#storage = storage;
    this.#dir = dir;
    this.#openThread = openThread;
  }

  /**
   * Resolves with the steps of the checkpoints that pruning must keep: the best one and those that tasks are reading. An invalid mark
   * protects no checkpoint.
   */
  async protected(): Promise<Set<number>> {
    const held = (await this.#storage.list(joinUri(this.#dir, HELD))).map(({ uri }) => readMark(this.#storage, uri, heldSchema));
    const marks = [await this.best(), ...(await Promise.all(held))];
    return new Set(marks.flatMap((mark) => mark?.step ?? []));
  }

  /**
   * Marks a checkpoint as the best one, which protects it from pruning. Replaces the previous mark.
   * @returns false, without changing anything, if the checkpoint no longer exists.
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

  /** Records that the program has ended, so readers stop waiting for checkpoints. */
  async setEnd(applicationId: string): Promise<void> {
    await this.#storage.write(this.#endUri, encodeMark({ applicationId }));
  }

  /** Does the same as `setEnd` synchronously, for an exiting process. @returns true if the mark was written. */
  setEndNow(applicationId: string): boolean {
    try {
      if (this.#dir.startsWith('file://')) {
        writeFileSync(fileURLToPath(this.#endUri), encodeMark({ applicationId }));
        return true;
      }
      return this.#openThread()?.markEndNow(this.#dir, applicationId, END_NOW_MS) ?? false;
    } catch {
      return false;
    }
  }

  /** Removes the end mark of an earlier program. Call it when training begins. */
  async clearEnd(): Promise<void> {
    if ((await this.#storage.stat(this.#endUri)) !== null) {
      await this.#storage.remove(this.#endUri);
    }
  }

  /** @param applicationId the application whose program may have ended; null for any application. */
  async hasEnded(applicationId: string | null): Promise<boolean> {
    const end = await readMark(this.#storage, this.#endUri, endSchema);
    return end !== null && (applicationId === null || end.applicationId === applicationId);
  }

  get #endUri(): string {
    return joinUri(this.#dir, END);
  }

  /**
   * Protects a checkpoint from pruning while `holder` reads it, until `release` or the holder's next `hold`.
   * @returns false if the checkpoint no longer exists.
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
    // HDFS rejects colons in names.
    return joinUri(this.#dir, HELD, `${holder.replace(/[^A-Za-z0-9_-]/g, '-')}.json`);
  }

  async #exists(step: number): Promise<boolean> {
    return (await this.#storage.stat(joinUri(this.#dir, `step-${step}`, MANIFEST))) !== null;
  }
}
