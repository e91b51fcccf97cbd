import { randomBytes } from 'node:crypto';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { TonyError } from '../../platform/errors.ts';
import { readIfStored } from '../../storage/read-if-stored.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import type { SplitList } from '../data/reading/read-context.ts';
import { csv, lines, tfRecords } from '../data/sources/sources.ts';
import { EXTENSIONS, type PredictFormat } from './predict-format.ts';

/*
 * The `predict` output folder:
 *
 *   _PREDICT                  JSON: the inputs and the result format; the first worker writes the file, and the other workers verify it
 *   part-00017.jsonl          the complete results of split 17
 *   _SUCCESS                  JSON: the number of records in each part; written by the first worker that finds all parts
 *   _attempts/<worker>/...    parts that are being written; removed at the end
 *   _counts/part-00017        the number of records in a finished part; removed at the end
 *
 * A worker writes a part into its own folder below `_attempts` and then renames it into place. If two workers write the same part, only
 * one rename succeeds. Data sources ignore names that begin with an underscore.
 */
const DESCRIPTION = '_PREDICT';
const SUCCESS = '_SUCCESS';
const ATTEMPTS = '_attempts';
const COUNTS = '_counts';

const CONCURRENT_READS = 16;

/** The contents of _PREDICT. A worker whose description differs from the stored one must not write to the folder. */
export interface PredictDescription {
  readonly version: 1;
  readonly format: PredictFormat;
  readonly compression: 'none' | 'gzip';
  readonly model: string;
  readonly fingerprint: string;
  readonly splits: SplitList['splits'];
}

/** The contents of _SUCCESS. */
export interface PredictManifest {
  readonly version: 1;
  readonly records: number;
  readonly parts: readonly { readonly name: string; readonly records: number }[];
}

/**
 * The output folder. A part appears only when it is complete. If several workers process the same split, the first one that finishes
 * writes the part.
 */
export class PredictOutput {
  readonly uri: string;
  readonly #storage: Storage;
  readonly #description: PredictDescription;
  readonly #attempts: string;

  private constructor(storage: Storage, uri: string, description: PredictDescription, writer: string) {
    this.#storage = storage;
    this.uri = uri;
    this.#description = description;
    this.#attempts = joinUri(uri, ATTEMPTS, `${writer}-${randomBytes(4).toString('hex')}`);
  }

  /**
   * @param writer a unique name for this process.
   * @throws TonyError OUTPUT_MISMATCH if the folder contains other files, or results from different inputs, models or formats.
   */
  static async open(storage: Storage, uri: string, description: PredictDescription, writer: string): Promise<PredictOutput> {
    const file = joinUri(uri, DESCRIPTION);
    const bytes = Buffer.from(`${JSON.stringify(description)}\n`);
    let known = await readIfStored(storage, file);
    if (known === null && (await storage.list(uri)).length > 0) {
      // Another worker may have written the description in the meantime.
      known = await readIfStored(storage, file);
      if (known === null) {
        throw new TonyError('OUTPUT_MISMATCH', `${uri} is not empty, and its contents are not results of predict`);
      }
    }
    if (known === null && !(await storage.write(file, bytes, { ifAbsent: true }))) {
      known = await storage.read(file);
    }
    if (known !== null && !known.equals(bytes)) {
      throw new TonyError('OUTPUT_MISMATCH', `${uri} contains results of ${difference(known, description)}`);
    }
    return new PredictOutput(storage, uri, description, writer);
  }

  get parts(): number {
    return this.#description.splits.length;
  }

  name(split: number): string {
    const { format, compression } = this.#description;
    return `part-${String(split).padStart(5, '0')}${EXTENSIONS[format]}${compression === 'gzip' ? '.gz' : ''}`;
  }

  /** Returns the numbers of the splits whose parts exist. */
  async done(): Promise<Set<number>> {
    const existing = new Set((await this.#storage.list(this.uri)).map(({ name }) => name));
    const all = Array.from({ length: this.parts }, (_, split) => split);
    return new Set(all.filter((split) => existing.has(this.name(split))));
  }

  async isDone(split: number): Promise<boolean> {
    return (await this.#storage.stat(this.#uriOf(split))) !== null;
  }

  /**
   * Streams a split's results into its part.
   * @param records returns the number of results. Called after `contents` has ended.
   * @returns false if another worker finished the split first.
   */
  async write(split: number, contents: Readable, records: () => number): Promise<boolean> {
    const attempt = joinUri(this.#attempts, this.name(split));
    try {
      // If the stream fails, the storage aborts the write, and the part does not appear.
      await this.#storage.write(attempt, this.#packed(contents));
      if (!(await this.#storage.rename(attempt, this.#uriOf(split)))) {
        if (await this.isDone(split)) {
          return false;
        }
        throw new TonyError('STORAGE_DENIED', `${attempt} could not be renamed`);
      }
    } catch (error) {
      // If the part exists, another worker has written it, and may already have removed this worker's file.
      if (await this.isDone(split)) {
        return false;
      }
      throw error;
    } finally {
      contents.destroy();
    }
    const count = joinUri(this.uri, COUNTS, this.name(split));
    await this.#storage.write(count, Buffer.from(String(records())), { ifAbsent: true }).catch(async (error: unknown) => {
      // The write fails if another worker is removing the counts. In that case, the manifest exists and includes this part.
      if ((await this.#readManifest()) === null) {
        throw error;
      }
    });
    return true;
  }

  #packed(contents: Readable): AsyncIterable<Uint8Array> {
    if (this.#description.compression === 'none') {
      return contents;
    }
    const packed = createGzip();
    // The error reaches the caller through `packed`.
    pipeline(contents, packed).catch(() => {});
    return packed;
  }

  /** Writes the manifest, unless another worker has written it. Call it after all parts exist. */
  async finish(): Promise<PredictManifest> {
    const file = joinUri(this.uri, SUCCESS);
    const manifest = (await this.#readManifest()) ?? (await this.#countAll());
    await this.#storage.write(file, Buffer.from(`${JSON.stringify(manifest)}\n`), { ifAbsent: true });
    // Every worker removes the folders, because slower workers may create them again.
    for (const folder of [COUNTS, ATTEMPTS]) {
      await this.#storage.remove(joinUri(this.uri, folder));
    }
    return manifest;
  }

  async #countAll(): Promise<PredictManifest> {
    const parts: { name: string; records: number }[] = [];
    for (let first = 0; first < this.parts; first += CONCURRENT_READS) {
      const some = Array.from({ length: Math.min(CONCURRENT_READS, this.parts - first) }, (_, index) => first + index);
      parts.push(...(await Promise.all(some.map(async (split) => ({ name: this.name(split), records: await this.#count(split) })))));
    }
    return { version: 1, records: parts.reduce((sum, { records }) => sum + records, 0), parts };
  }

  async #count(split: number): Promise<number> {
    const stored = await readIfStored(this.#storage, joinUri(this.uri, COUNTS, this.name(split)));
    if (stored !== null) {
      return Number(stored.toString());
    }
    // Counts a part's records. Used if the worker that wrote the part failed before it stored the count.
    const uri = { uri: this.#uriOf(split) };
    const dataset = { jsonl: lines(uri), csv: csv(uri, { isSplittable: false }), tfrecord: tfRecords(uri) }[this.#description.format];
    const reader = dataset.read({ storage: this.#storage });
    let count = 0;
    for await (const _ of reader) {
      count++;
    }
    return count;
  }

  async #readManifest(): Promise<PredictManifest | null> {
    const bytes = await readIfStored(this.#storage, joinUri(this.uri, SUCCESS));
    return bytes === null ? null : (JSON.parse(bytes.toString()) as PredictManifest);
  }

  #uriOf(split: number): string {
    return joinUri(this.uri, this.name(split));
  }
}

function difference(known: Buffer, own: PredictDescription): string {
  let other: Partial<PredictDescription>;
  try {
    other = JSON.parse(known.toString()) as Partial<PredictDescription>;
  } catch {
    return 'something else';
  }
  if (other.model !== own.model) {
    return 'another model or function';
  }
  if (other.fingerprint !== own.fingerprint) {
    return 'other input files (their names, sizes or times differ)';
  }
  if (other.format !== own.format || other.compression !== own.compression) {
    return 'another format';
  }
  return 'the same files, split differently';
}
