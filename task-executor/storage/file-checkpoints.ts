import { rm } from 'node:fs/promises';
import path from 'node:path';
import type { CheckpointFolders, PendingCheckpoint } from '../../contract/checkpoint/checkpoint-folders.ts';
import type { Origin } from '../../contract/checkpoint/checkpoint-format.ts';
import { openCheckpointFolders } from '../../contract/checkpoint/open-checkpoint-folders.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { type CopiedFile, downloadFile, uploadFolder } from '../../storage/copy-files.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import { type FeedPositions, feedPositions, mergePositions, streamPositions } from '../partitions/feed-positions.ts';
import { type CheckpointPart, CheckpointParts, mergeParts, type PartFile } from './checkpoint-parts.ts';
import { isVersionName } from './local-versions.ts';

/**
 * File that lists a checkpoint's files, with their lengths and checksums. The executor stores it last, so a checkpoint that contains this
 * file is complete.
 */
const INDEX = 'files.json';

interface Index extends Origin {
  readonly version: 1;
  readonly step: number;
  readonly createdAt: string;
  /** Subfolder that contains the files, or undefined if they are in the same folder as the index. */
  readonly folder?: string | undefined;
  /** Subfolder of the synchronized folder to which the files belong. See RestoredCheckpoint. */
  readonly target?: string | undefined;
  readonly files: readonly StoredFile[];
  /** The places at which the ranks continue to read feeds of partitions. Absent if the job reads none. */
  readonly feeds?: FeedPositions | undefined;
}

/** `part` is the subfolder with the file, or undefined if no rank but the writer has added files. */
type StoredFile = CopiedFile & Partial<PartFile>;

export interface RestoredCheckpoint {
  readonly step: number;
  /** Absolute path of the local copy. */
  readonly folder: string;
  /**
   * Subfolder of `checkpoint.sync` to which the files belong. Empty for a file directly in `checkpoint.sync`. Null if the program has
   * stored the checkpoint itself.
   */
  readonly target: string | null;
  readonly feeds: FeedPositions;
}

export interface SaveOptions {
  readonly feeds?: FeedPositions | undefined;
  /** See RestoredCheckpoint. */
  readonly target?: string;
  /** Step of a checkpoint that must not be removed, because other tasks may still be restoring it. */
  readonly protect?: number;
  /** Called after the files have been uploaded. The checkpoint becomes visible only if the returned promise resolves. */
  readonly verify?: () => Promise<void>;
}

export interface RestoreOptions {
  /** If true, skips checkpoints from the current generation, so that all tasks in the generation restore the same checkpoint. */
  readonly ofEarlierGenerations?: boolean;
}

/**
 * Stores and restores checkpoints that consist of files, for programs that use other frameworks. Prevents earlier generations from adding
 * checkpoints.
 */
export class FileCheckpoints {
  readonly #storage: Storage;
  readonly #folders: CheckpointFolders;
  readonly #origin: Origin;
  readonly #keep: number;

  constructor(storage: Storage, dir: string, origin: Origin, keep: number) {
    this.#storage = storage;
    this.#folders = openCheckpointFolders(storage, dir, INDEX);
    this.#origin = origin;
    this.#keep = keep;
  }

  /**
   * Stores a copy of the local folder as the checkpoint for this step, and removes the oldest checkpoints.
   * @returns the checkpoint's URI
   * @throws TonyError CHECKPOINT_FENCED if a newer generation has taken over, CHECKPOINT_FAILED if the folder is empty or contains
   * `files.json`, and the errors that `uploadFolder` throws
   */
  async save(step: number, local: string, signal: AbortSignal, options: SaveOptions = {}): Promise<string> {
    const { target, verify, protect, feeds } = options;
    const pending = await this.#folders.begin(step, this.#origin);
    const uri = await this.#folders.unlessFenced(pending, async () => {
      const files = await uploadFolder(this.#storage, local, pending.uri, signal);
      await verify?.();
      return await this.#publish(pending, files, local, { target, feeds });
    });
    await this.#prune(step, protect);
    return uri;
  }

  /**
   * Stores this rank's part of a checkpoint to which every rank adds files. Returns immediately if other ranks have to act first. The caller
   * then repeats the call until the checkpoint is complete.
   * @returns the checkpoint's URI, or the ranks that this rank is waiting for
   * @throws TonyError like `save`, and CHECKPOINT_FAILED if the ranks save different steps, or different files with the same name
   */
  async savePart(part: CheckpointPart, signal: AbortSignal): Promise<{ readonly uri: string } | { readonly missing: readonly number[] }> {
    const { step, rank } = part;
    const parts = new CheckpointParts(this.#storage, this.#folders.dir, this.#origin, part);
    await parts.refresh();
    if (rank === 0 && !parts.has('begun')) {
      await parts.removeOld();
      await parts.write('begun', await this.#folders.begin(step, this.#origin));
    }
    const pending = (await parts.read('begun')) as PendingCheckpoint | null;
    if (pending === null) {
      return { missing: [0] };
    }
    if (pending.step !== step || !this.#folders.isPendingHere(pending)) {
      throw new TonyError('CHECKPOINT_FAILED', `rank ${rank} saves step ${step}, but rank 0 saves step ${pending.step}`, {
        hint: 'Let every rank save the same steps in the same order.',
      });
    }
    if (!parts.has(`arrived-${rank}`)) {
      await parts.write(`arrived-${rank}`, { feeds: part.feeds });
      await parts.refresh();
    }
    const absent = parts.missing('arrived');
    if (absent.length > 0) {
      return { missing: absent };
    }
    if (!parts.has(`stored-${rank}`)) {
      const files = await this.#folders.unlessFenced(pending, async () => await uploadPart(this.#storage, pending, part, signal));
      await parts.write(`stored-${rank}`, files);
      await parts.refresh();
    }
    if (rank === 0 && !parts.has('ended')) {
      const missing = parts.missing('stored');
      if (missing.length > 0) {
        return { missing };
      }
      await parts.write('ended', await this.#completeParts(parts, pending, part));
    }
    const ended = (await parts.read('ended')) as { readonly uri: string } | { readonly failed: readonly [string, string] } | null;
    if (ended !== null && 'failed' in ended) {
      throw new TonyError('CHECKPOINT_FAILED', ended.failed[0], { hint: ended.failed[1] });
    }
    return ended ?? { missing: [0] };
  }

  async #completeParts(parts: CheckpointParts, pending: PendingCheckpoint, { ranks, path: local }: CheckpointPart): Promise<object> {
    try {
      const stored = await Promise.all(Array.from({ length: ranks }, (_, rank) => parts.read(`stored-${rank}`)));
      const files = mergeParts(stored as PartFile[][]);
      const arrived = await Promise.all(Array.from({ length: ranks }, (_, rank) => parts.read(`arrived-${rank}`)));
      const feeds = mergePositions((arrived as { feeds?: FeedPositions }[]).map((each) => each.feeds ?? {}));
      const uri = await this.#folders.unlessFenced(pending, async () => await this.#publish(pending, files, local, { feeds }));
      await this.#prune(pending.step, undefined);
      return { uri };
    } catch (error) {
      if (error instanceof TonyError && error.code === 'CHECKPOINT_FAILED') {
        return { failed: [error.message, error.hint] };
      }
      throw error;
    }
  }

  async #publish(
    pending: PendingCheckpoint,
    files: readonly StoredFile[],
    local: string,
    { target, feeds }: Pick<Index, 'target' | 'feeds'>,
  ): Promise<string> {
    if (files.length === 0 || files.some(({ name }) => name === INDEX)) {
      const what = files.length === 0 ? 'contains no files' : `contains a file named ${INDEX}, which tony-ts writes itself`;
      throw new TonyError('CHECKPOINT_FAILED', `${local} ${what}`);
    }
    const { jobId, generation } = this.#origin;
    const { step } = pending;
    const folder = this.#folders.subFolder(pending);
    const index: Index = { version: 1, jobId, generation, step, createdAt: new Date().toISOString(), folder, target, files, feeds };
    return await this.#folders.publish(pending, Buffer.from(`${JSON.stringify(index, null, 1)}\n`));
  }

  async #prune(step: number, protect: number | undefined): Promise<void> {
    const stored = (await this.#folders.steps()).filter((each) => each <= step);
    for (const old of stored.slice(this.#keep).filter((each) => each !== protect)) {
      await this.#folders.drop(old, async () => false);
    }
  }

  /**
   * Prevents earlier generations from adding checkpoints, and then copies the newest intact checkpoint to a folder below `local`.
   * @param onSkipped receives a message about each damaged checkpoint that is newer
   * @returns null if there is no intact checkpoint
   */
  async restore(
    local: string,
    signal: AbortSignal,
    onSkipped: (message: string) => void,
    { ofEarlierGenerations = false }: RestoreOptions = {},
  ): Promise<RestoredCheckpoint | null> {
    await this.#folders.retireOlderThan(this.#origin);
    for (const step of await this.#folders.steps()) {
      const folder = path.join(local, `step-${step}`);
      try {
        await rm(folder, { recursive: true, force: true });
        const index = await this.#index(step);
        if (ofEarlierGenerations && this.#isOwn(index)) {
          continue;
        }
        await this.#download(step, index, folder, signal);
        const stored = index.feeds ?? {};
        const feeds = index.jobId === this.#origin.jobId ? stored : streamPositions(stored);
        const others = Object.keys(stored).filter((name) => feeds[name] === undefined);
        if (others.length > 0) {
          const names = others.join(', ');
          onSkipped(
            `the feeds ${names} are read from the beginning, because checkpoint step-${step} is of another job, which may have read other data`,
          );
        }
        return { step, folder, target: index.target ?? null, feeds };
      } catch (error) {
        if (!(error instanceof TonyError) || !['CHECKPOINT_INVALID', 'NOT_FOUND'].includes(error.code)) {
          throw error;
        }
        await rm(folder, { recursive: true, force: true });
        onSkipped(`checkpoint step-${step} is skipped: ${messageOf(error)}`);
      }
    }
    return null;
  }

  async #index(step: number): Promise<CheckedIndex> {
    const uri = joinUri(this.#folders.dir, `step-${step}`);
    return parseIndex(await this.#storage.read(joinUri(uri, INDEX)), uri);
  }

  #isOwn({ jobId, generation }: CheckedIndex): boolean {
    return jobId === this.#origin.jobId && generation === this.#origin.generation;
  }

  async #download(step: number, { folder: subFolder, files }: CheckedIndex, folder: string, signal: AbortSignal): Promise<void> {
    const uri = joinUri(this.#folders.dir, `step-${step}`);
    const place = subFolder === undefined ? uri : joinUri(uri, subFolder);
    for (const { name, bytes, sha256, part } of files) {
      const from = joinUri(place, ...(part === undefined ? [] : [part]), ...name.split('/'));
      const copy = await downloadFile(this.#storage, from, path.join(folder, name), signal);
      if (copy.bytes !== bytes || copy.sha256 !== sha256) {
        throw new TonyError('CHECKPOINT_INVALID', `the checksum of ${uri}/${name} is wrong`);
      }
    }
  }
}

/** Uploads of parts, keyed by checkpoint and local folder. The ranks of a task may share a folder. */
const uploads = new Map<string, Promise<PartFile[]>>();

async function uploadPart(
  storage: Storage,
  { uri }: PendingCheckpoint,
  { rank, path: local }: CheckpointPart,
  signal: AbortSignal,
): Promise<PartFile[]> {
  for (const key of uploads.keys()) {
    if (!key.startsWith(`${uri} `)) {
      uploads.delete(key);
    }
  }
  const key = `${uri} ${local}`;
  let upload = uploads.get(key);
  if (upload === undefined) {
    const part = `rank-${rank}`;
    upload = uploadFolder(storage, local, joinUri(uri, part), signal).then((files) => files.map((file) => ({ ...file, part })));
    uploads.set(key, upload);
    upload.catch(() => uploads.delete(key));
  }
  return await upload;
}

interface CheckedIndex extends Pick<Index, 'folder' | 'target' | 'files' | 'feeds'> {
  readonly jobId: string | undefined;
  readonly generation: number | undefined;
}

/** @throws TonyError CHECKPOINT_INVALID if the index is not valid, or if a file name refers to a file outside the checkpoint's folder */
function parseIndex(bytes: Uint8Array, uri: string): CheckedIndex {
  let index: Partial<Index> | null;
  try {
    index = JSON.parse(Buffer.from(bytes).toString('utf8')) as Partial<Index> | null;
  } catch {
    throw new TonyError('CHECKPOINT_INVALID', `${uri}/${INDEX} is not valid JSON`);
  }
  const files = index?.version === 1 && Array.isArray(index.files) ? (index.files as readonly Partial<StoredFile>[]) : null;
  const { folder, target, jobId, generation } = index ?? {};
  const isName = folder === undefined || /^\w[\w.-]*$/.test(folder);
  const isTarget = target === undefined || target === '' || isVersionName(target);
  const feeds = feedPositions.optional().safeParse(index?.feeds);
  if (files === null || !files.every(isFile) || !isName || !isTarget || !feeds.success) {
    throw new TonyError('CHECKPOINT_INVALID', `${uri}/${INDEX} has an unknown format`);
  }
  return { folder, target, jobId, generation, files: files as readonly StoredFile[], feeds: feeds.data };
}

function isFile({ name, bytes, sha256, part }: Partial<StoredFile>): boolean {
  if (part !== undefined && !/^rank-\d+$/.test(part)) {
    return false;
  }
  const isInside = typeof name === 'string' && name.split('/').every((part) => part !== '' && part !== '.' && part !== '..');
  return isInside && Number.isSafeInteger(bytes) && /^[0-9a-f]{64}$/.test(String(sha256));
}
