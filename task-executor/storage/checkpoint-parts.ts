import type { Origin } from '../../contract/checkpoint/checkpoint-format.ts';
import { TonyError } from '../../platform/errors.ts';
import type { CopiedFile } from '../../storage/copy-files.ts';
import { readIfStored } from '../../storage/read-if-stored.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import type { FeedPositions } from '../partitions/feed-positions.ts';

/** One process's part of a checkpoint to which every rank adds files. All ranks of a generation save the same checkpoints in the same order. */
export interface CheckpointPart {
  readonly step: number;
  /** Number of such checkpoints that this process has saved before in this generation. */
  readonly save: number;
  readonly rank: number;
  readonly ranks: number;
  /** Absolute path of the local folder with the files of this rank. Ranks in the same task may share the folder. */
  readonly path: string;
  /** The places at which this rank continues to read feeds. */
  readonly feeds?: FeedPositions | undefined;
}

/** A file of a part. `part` is the subfolder of the checkpoint that contains it. */
export interface PartFile extends CopiedFile {
  readonly part: string;
}

const PARTS = '.parts';

/**
 * The files by which the ranks agree on one checkpoint, in `.parts/APPLICATION/generation-2/save-5/` of the checkpoint folder:
 *
 *   begun.json       rank 0 has begun the checkpoint; contains the PendingCheckpoint
 *   arrived-3.json   rank 3 has written its local files
 *   stored-3.json    rank 3 has stored its files; contains their names, lengths and checksums
 *   ended.json       contains the checkpoint's URI, or the reason why rank 0 could not complete the checkpoint
 *
 * All ranks store their files after all ranks have arrived, because ranks in the same task may write to the same local folder.
 */
export class CheckpointParts {
  readonly #storage: Storage;
  readonly #folder: string;
  readonly #uri: string;
  readonly #call: CheckpointPart;
  readonly #generation: number;
  #names = new Set<string>();

  constructor(storage: Storage, dir: string, { jobId, generation }: Origin, call: CheckpointPart) {
    this.#storage = storage;
    this.#folder = joinUri(dir, PARTS, jobId);
    this.#uri = joinUri(this.#folder, `generation-${generation}`);
    this.#generation = generation;
    this.#call = call;
  }

  async refresh(): Promise<void> {
    this.#names = new Set((await this.#storage.list(this.#place(this.#call.save))).map(({ name }) => name));
  }

  has(kind: 'begun' | 'ended' | `${'arrived' | 'stored'}-${number}`): boolean {
    return this.#names.has(`${kind}.json`);
  }

  /** Returns the ranks without such a file. */
  missing(kind: 'arrived' | 'stored'): number[] {
    return Array.from({ length: this.#call.ranks }, (_, rank) => rank).filter((rank) => !this.has(`${kind}-${rank}`));
  }

  async write(kind: Parameters<CheckpointParts['has']>[0], content: object): Promise<void> {
    const bytes = Buffer.from(JSON.stringify(content));
    await this.#storage.write(joinUri(this.#place(this.#call.save), `${kind}.json`), bytes, { ifAbsent: true });
    this.#names.add(`${kind}.json`);
  }

  async read(kind: Parameters<CheckpointParts['has']>[0]): Promise<unknown> {
    const bytes = await readIfStored(this.#storage, joinUri(this.#place(this.#call.save), `${kind}.json`));
    return bytes === null ? null : JSON.parse(bytes.toString());
  }

  /** Removes what no rank reads any more: every rank has seen the end of a checkpoint before it arrives at the next one. */
  async removeOld(): Promise<void> {
    const { save } = this.#call;
    if (save >= 2) {
      await this.#storage.remove(this.#place(save - 2));
    }
    for (const { name, uri } of save === 0 ? await this.#storage.list(this.#folder) : []) {
      if (Number(/^generation-(\d+)$/.exec(name)?.[1]) < this.#generation) {
        await this.#storage.remove(uri);
      }
    }
  }

  #place(save: number): string {
    return joinUri(this.#uri, `save-${save}`);
  }
}

/**
 * Merges the files of all ranks. Several ranks may have equal files, for example ranks that share a folder.
 * @throws TonyError CHECKPOINT_FAILED if two ranks have different files with the same name
 */
export function mergeParts(parts: readonly (readonly PartFile[])[]): PartFile[] {
  const files = new Map<string, { readonly file: PartFile; readonly rank: number }>();
  for (const [rank, part] of parts.entries()) {
    for (const file of part) {
      const other = files.get(file.name);
      if (other === undefined) {
        files.set(file.name, { file, rank });
      } else if (other.file.sha256 !== file.sha256 || other.file.bytes !== file.bytes) {
        throw new TonyError('CHECKPOINT_FAILED', `rank ${other.rank} and rank ${rank} have different files named ${file.name}`, {
          hint: 'Let one rank write the file, or put the rank into its name.',
        });
      }
    }
  }
  return [...files.values()].map(({ file }) => file);
}
