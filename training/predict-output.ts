import { randomBytes } from 'node:crypto';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { TonyError } from '../conf/errors.ts';
import type { Storage } from '../storage/storage.ts';
import { joinUri } from '../storage/uri.ts';
import type { SplitList } from './datasets/read-context.ts';
import { csv, lines, tfrecords } from './datasets/sources.ts';
import { EXTENSIONS, type PredictFormat } from './predict-format.ts';

/*
 * The output folder of `predict`:
 *
 *   _PREDICT                  JSON: what the folder is made of; written by whoever comes first, and the same for all who come later
 *   part-00017.jsonl          the results of split 17, whole
 *   _SUCCESS                  JSON: the records of each part; written by whoever finds all parts there
 *   _attempts/<worker>/...    parts that are being written; gone at the end
 *   _counts/part-00017        records of a part that is there; gone at the end
 *
 * A part is written among its writer's attempts and then renamed, which happens once: of two writers one finds the name taken. Names that begin
 * with an underscore are passed over by readers of data.
 */
const DESCRIPTION = '_PREDICT';
const SUCCESS = '_SUCCESS';
const ATTEMPTS = '_attempts';
const COUNTS = '_counts';

const AT_ONCE = 16;

/** What a folder of results is made of. Who has another one may not add to it. */
export interface PredictDescription {
  readonly version: 1;
  readonly format: PredictFormat;
  readonly compression: 'none' | 'gzip';
  /** Tells the model or function from others. */
  readonly model: string;
  readonly fingerprint: string;
  readonly splits: SplitList['splits'];
}

/** What _SUCCESS holds. */
export interface PredictManifest {
  readonly version: 1;
  readonly records: number;
  readonly parts: readonly { readonly name: string; readonly records: number }[];
}

/** The results of all splits, each there once or not at all, whoever writes them. */
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
   * @param writer names this process in the folder.
   * @throws TonyError OUTPUT_MISMATCH when the folder holds something else.
   */
  static async open(storage: Storage, uri: string, description: PredictDescription, writer: string): Promise<PredictOutput> {
    const file = joinUri(uri, DESCRIPTION);
    const bytes = Buffer.from(`${JSON.stringify(description)}\n`);
    let known = await readIfThere(storage, file);
    if (known === null && (await storage.list(uri)).length > 0) {
      // Another worker may have begun it in between.
      known = await readIfThere(storage, file);
      if (known === null) throw new TonyError('OUTPUT_MISMATCH', `${uri} is not empty, and what is there are no results of predict`);
    }
    if (known === null && !(await storage.write(file, bytes, { ifAbsent: true }))) known = await storage.read(file);
    if (known !== null && !known.equals(bytes)) {
      throw new TonyError('OUTPUT_MISMATCH', `${uri} holds results of ${difference(known, description)}`);
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

  /** The splits whose results are there. */
  async done(): Promise<Set<number>> {
    const there = new Set((await this.#storage.list(this.uri)).map(({ name }) => name));
    const all = Array.from({ length: this.parts }, (_, split) => split);
    return new Set(all.filter((split) => there.has(this.name(split))));
  }

  async isDone(split: number): Promise<boolean> {
    return (await this.#storage.stat(this.#uriOf(split))) !== null;
  }

  /**
   * Writes the results of a split, as they come.
   * @param records tells their number, once `contents` has ended.
   * @returns false when somebody else was faster.
   */
  async write(split: number, contents: Readable, records: () => number): Promise<boolean> {
    const attempt = joinUri(this.#attempts, this.name(split));
    try {
      // A stream that fails ends the writing; nothing then has the name.
      await this.#storage.write(attempt, this.#packed(contents));
      if (!(await this.#storage.rename(attempt, this.#uriOf(split)))) {
        if (await this.isDone(split)) return false;
        throw new TonyError('STORAGE_REFUSED', `${attempt} could not be given its name`);
      }
    } catch (error) {
      // Who found all done has cleared the attempts away.
      if (await this.isDone(split)) return false;
      throw error;
    } finally {
      contents.destroy();
    }
    const count = joinUri(this.uri, COUNTS, this.name(split));
    await this.#storage.write(count, Buffer.from(String(records())), { ifAbsent: true }).catch(async (error: unknown) => {
      // Who found all done has counted the part itself, and clears the counts away.
      if ((await this.#readManifest()) === null) throw error;
    });
    return true;
  }

  #packed(contents: Readable): AsyncIterable<Uint8Array> {
    if (this.#description.compression === 'none') return contents;
    const packed = createGzip();
    // Errors reach whoever reads the packed bytes.
    pipeline(contents, packed).catch(() => {});
    return packed;
  }

  /** To be called when all parts are there. Whoever is first writes the manifest. */
  async finish(): Promise<PredictManifest> {
    const file = joinUri(this.uri, SUCCESS);
    const manifest = (await this.#readManifest()) ?? (await this.#countAll());
    await this.#storage.write(file, Buffer.from(`${JSON.stringify(manifest)}\n`), { ifAbsent: true });
    // Whoever is last takes away what others have still written after the first.
    for (const folder of [COUNTS, ATTEMPTS]) await this.#storage.remove(joinUri(this.uri, folder));
    return manifest;
  }

  async #countAll(): Promise<PredictManifest> {
    const parts: { name: string; records: number }[] = [];
    for (let first = 0; first < this.parts; first += AT_ONCE) {
      const some = Array.from({ length: Math.min(AT_ONCE, this.parts - first) }, (_, index) => first + index);
      parts.push(...(await Promise.all(some.map(async (split) => ({ name: this.name(split), records: await this.#count(split) })))));
    }
    return { version: 1, records: parts.reduce((sum, { records }) => sum + records, 0), parts };
  }

  async #count(split: number): Promise<number> {
    const told = await readIfThere(this.#storage, joinUri(this.uri, COUNTS, this.name(split)));
    if (told !== null) return Number(told.toString());
    // Its writer died between the two files.
    const uri = this.#uriOf(split);
    const dataset = { jsonl: lines(uri), csv: csv(uri, { isSplittable: false }), tfrecord: tfrecords(uri) }[this.#description.format];
    const reader = dataset.read({ storage: this.#storage });
    let count = 0;
    for await (const _ of reader) count++;
    return count;
  }

  async #readManifest(): Promise<PredictManifest | null> {
    const bytes = await readIfThere(this.#storage, joinUri(this.uri, SUCCESS));
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
  if (other.model !== own.model) return 'another model or function';
  if (other.fingerprint !== own.fingerprint) return 'other input files (their names, sizes or times differ)';
  if (other.format !== own.format || other.compression !== own.compression) return 'another format';
  return 'the same files in other parts';
}

async function readIfThere(storage: Storage, uri: string): Promise<Buffer | null> {
  try {
    return await storage.read(uri);
  } catch (error) {
    if (error instanceof TonyError && error.code === 'NOT_FOUND') return null;
    throw error;
  }
}
