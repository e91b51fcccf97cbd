import { randomUUID } from 'node:crypto';
import { TonyError } from '../../platform/errors.ts';
import { readIfStored } from '../../storage/read-if-stored.ts';
import { joinUri } from '../../storage/uri.ts';
import { CheckpointFolders, folderNameOf, isSafeId, type PendingCheckpoint } from './checkpoint-folders.ts';
import type { Origin } from './checkpoint-format.ts';

const LOG = '.log';
const ENTRY = /^(\d{9})\.json$/;
/** Maximum number of attempts to append to a log to which other processes also append. */
const APPEND_TRIES = 100;

/** A published checkpoint, or a tombstone, which is always the last entry of its log. */
type LogEntry = { readonly step: number; readonly index: string } | { readonly retired: true };

interface Tail {
  /** Number of the last entry, or 0 for an empty log. */
  readonly number: number;
  readonly entry: LogEntry | null;
}

/**
 * Publishes checkpoints in an object store. An object store cannot rename folders, but a writer can create an object only if it does not
 * exist yet:
 *
 *   step-300/APPLICATION.3.UUID/...                 the files written by one attempt of generation 3
 *   step-300/manifest.json                          the index, which names the attempt whose files belong to the checkpoint; written last
 *   .log/APPLICATION/generation-3/000000007.json    the last checkpoint published by generation 3, or a tombstone
 *
 * Each generation has a log. To publish a checkpoint, a writer creates the next entry of its log, with the index as its content. The writer
 * then copies the index to the step's folder. To retire a generation, a reader creates the next entry of that generation's log as a
 * tombstone.
 *
 * If a writer and a reader compete, only one of them can create the entry. If the reader succeeds, the writer fails. If the writer
 * succeeds, the reader copies the index on the writer's behalf and tries the next entry. A retired generation therefore cannot add
 * checkpoints, and the newest checkpoint that the reader finds stays the newest. Only the last entry of a log is needed, so writers remove
 * earlier entries.
 */
export class LoggingPublication extends CheckpointFolders {
  async retireOlderThan({ jobId, generation }: Origin): Promise<void> {
    for (let older = 1; older < generation; older++) {
      await this.#retire({ jobId, generation: older });
    }
  }

  async #retire(origin: Origin): Promise<void> {
    for (let attempt = 0; attempt < APPEND_TRIES; attempt++) {
      const { number, entry } = await this.#tail(origin);
      if (entry !== null && 'retired' in entry) {
        return;
      }
      if (entry !== null) {
        await this.#completePublished(entry.step, entry.index, origin);
      }
      if (await this.#append(origin, number + 1, { retired: true })) {
        await this.#removeAttempts(origin, await this.stepFolders());
        return;
      }
    }
    throw new TonyError('CHECKPOINT_FAILED', `could not stop generation ${origin.generation} from writing to ${this.dir}`);
  }

  /**
   * Copies the index to the step's folder. This is necessary because the writer may have died between creating the log entry and copying
   * the index.
   */
  async #completePublished(step: number, index: string, origin: Origin): Promise<void> {
    const uri = joinUri(this.uriOf(step), this.indexName);
    const present = await this.#readText(uri);
    if (present === index || isFromLaterGeneration(present, origin)) {
      return;
    }
    await this.storage.write(uri, Buffer.from(index), { ifAbsent: present === null });
  }

  protected async isFenced(origin: Origin): Promise<boolean> {
    const { entry } = await this.#tail(origin);
    return entry !== null && 'retired' in entry;
  }

  protected async beginAttempt(step: number, origin: Origin): Promise<string> {
    await this.#removeAttempts(origin, [step]);
    return joinUri(this.uriOf(step), `${prefixOf(origin)}${randomUUID()}`);
  }

  isPendingHere({ step, jobId, generation, uri }: PendingCheckpoint): boolean {
    const [name = ''] = uri.split('/').slice(-1);
    const isName = isSafeId(jobId) && name.startsWith(prefixOf({ jobId, generation })) && /^[\w.-]+$/.test(name);
    return isName && uri === joinUri(this.uriOf(step), name);
  }

  subFolder({ uri }: PendingCheckpoint): string {
    return uri.slice(uri.lastIndexOf('/') + 1);
  }

  async publish(pending: PendingCheckpoint, index: Buffer): Promise<string> {
    const { step } = pending;
    const uri = this.uriOf(step);
    for (let attempt = 0; attempt < APPEND_TRIES; attempt++) {
      const { number, entry } = await this.#tail(pending);
      if (entry !== null && 'retired' in entry) {
        break;
      }
      if (await this.#append(pending, number + 1, { step, index: index.toString() })) {
        await this.storage.write(joinUri(uri, this.indexName), index);
        await this.storage.remove(this.#entryUri(pending, number));
        await this.#removeReplaced(step, this.subFolder(pending));
        return uri;
      }
    }
    throw new TonyError('CHECKPOINT_FAILED', `${uri} could not be published`);
  }

  /**
   * Removes the index before it calls `isProtected`, which avoids a race with `setBest` and `hold`. If one of them writes a mark before
   * that call, this method sees the mark and restores the index. If one of them writes a mark later, it finds that the checkpoint does not
   * exist.
   */
  async drop(step: number, isProtected: () => Promise<boolean>): Promise<void> {
    const uri = this.uriOf(step);
    const index = await this.#readText(joinUri(uri, this.indexName));
    if (index === null) {
      return;
    }
    await this.storage.remove(joinUri(uri, this.indexName));
    if (await isProtected()) {
      await this.storage.write(joinUri(uri, this.indexName), Buffer.from(index));
    } else {
      await this.storage.remove(uri);
    }
  }

  protected async completeSteps(): Promise<number[]> {
    const folders = await this.stepFolders();
    const isComplete = await Promise.all(folders.map((step) => this.storage.stat(joinUri(this.uriOf(step), this.indexName))));
    return folders.filter((_, index) => isComplete[index] !== null);
  }

  /** Removes the files of a generation's attempts, except those of published checkpoints. */
  async #removeAttempts(origin: Origin, steps: readonly number[]): Promise<void> {
    for (const step of steps) {
      const uri = this.uriOf(step);
      const attempts = (await this.storage.list(uri)).filter(({ name }) => name.startsWith(prefixOf(origin)));
      const published = attempts.length === 0 ? null : folderIn(await this.#readText(joinUri(uri, this.indexName)));
      for (const attempt of attempts.filter(({ name }) => name !== published)) {
        await this.storage.remove(attempt.uri);
      }
    }
  }

  /** Removes the replaced checkpoint's files. Keeps the sub-folder named `published`, which belongs to the new checkpoint. */
  async #removeReplaced(step: number, published: string): Promise<void> {
    const entries = await this.storage.list(this.uriOf(step));
    for (const entry of entries.filter(({ name, type }) => type === 'folder' && name !== published)) {
      await this.storage.remove(entry.uri);
    }
  }

  async #tail(origin: Origin): Promise<Tail> {
    for (let attempt = 0; attempt < APPEND_TRIES; attempt++) {
      const names = (await this.storage.list(this.#logUri(origin))).flatMap(({ name }) => ENTRY.exec(name)?.[1] ?? []);
      const number = Math.max(0, ...names.map(Number));
      const text = number === 0 ? null : await this.#readText(this.#entryUri(origin, number));
      if (text !== null) {
        return { number, entry: parseEntry(text, this.#entryUri(origin, number)) };
      }
      if (number === 0) {
        return { number, entry: null };
      }
      // Another process has added the next entry and removed this one.
    }
    throw new TonyError('CHECKPOINT_FAILED', `${this.#logUri(origin)} changes too fast`);
  }

  async #append(origin: Origin, number: number, entry: LogEntry): Promise<boolean> {
    return await this.storage.write(this.#entryUri(origin, number), Buffer.from(`${JSON.stringify(entry)}\n`), { ifAbsent: true });
  }

  async #readText(uri: string): Promise<string | null> {
    return (await readIfStored(this.storage, uri))?.toString() ?? null;
  }

  #logUri({ jobId, generation }: Origin): string {
    return joinUri(this.dir, LOG, folderNameOf(jobId), `generation-${generation}`);
  }

  #entryUri(origin: Origin, number: number): string {
    return joinUri(this.#logUri(origin), `${String(number).padStart(9, '0')}.json`);
  }
}

function prefixOf({ jobId, generation }: Origin): string {
  return `${folderNameOf(jobId)}.${generation}.`;
}

/** Parses a log entry without zod, because executors run this code and zod needs a lot of memory. */
function parseEntry(text: string, uri: string): LogEntry {
  try {
    const { step, index, retired } = JSON.parse(text) as Record<string, unknown>;
    if (retired === true) {
      return { retired };
    }
    if (Number.isSafeInteger(step) && typeof index === 'string') {
      return { step: step as number, index };
    }
  } catch {
    // Invalid JSON causes the same error as an invalid entry.
  }
  throw new TonyError('CHECKPOINT_FAILED', `${uri} is not an entry of a checkpoint log`);
}

/** Returns an index field, or undefined if the index is damaged. Does not verify the index. */
function fieldOf(text: string | null, field: 'jobId' | 'generation' | 'folder'): unknown {
  try {
    const index = JSON.parse(text ?? '{}') as Record<string, unknown> & { body?: Record<string, unknown> };
    // The manifest of a TensorFlow.js checkpoint has these fields in `body`.
    return (index.body ?? index)[field];
  } catch {
    return undefined;
  }
}

function folderIn(index: string | null): unknown {
  return fieldOf(index, 'folder');
}

function isFromLaterGeneration(index: string | null, { jobId, generation }: Origin): boolean {
  const found = fieldOf(index, 'generation');
  return fieldOf(index, 'jobId') === jobId && typeof found === 'number' && found > generation;
}
