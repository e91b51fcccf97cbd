import type { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import type { FrozenJob } from '../../conf/job.ts';
import { parseFrozenJob } from '../../conf/resolve/frozen-job.ts';
import type { HistoryEntry, UsageSample } from '../../conf/status/status.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { parseJson } from '../../platform/json-value.ts';
import type { Entry, Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import { historyFiles, parseEntry, parseSample } from '../../web/history-files.ts';
import type { JobPlace } from './job-place.ts';
import { type FinalStatus, LARGEST_STATUS, parseFinal } from './status-schema.ts';
import type { JobRecord } from './stored-status.ts';

const NEWLINE = 0x0a;

/**
 * Yields the lines of a stream without their newlines. The last line may lack a newline. Skips empty lines. Also skips lines longer than
 * `longest` bytes, without keeping them in memory.
 */
export async function* linesOf(stream: Readable, longest: number): AsyncGenerator<string> {
  let held: Buffer[] = [];
  let heldBytes = 0;
  let isTooLong = false;
  const take = (part: Buffer): void => {
    isTooLong ||= heldBytes + part.length > longest;
    if (isTooLong) {
      held = [];
      heldBytes = 0;
    } else if (part.length > 0) {
      held.push(part);
      heldBytes += part.length;
    }
  };
  const line = (): string | null => {
    const text = isTooLong || heldBytes === 0 ? null : Buffer.concat(held, heldBytes).toString('utf8');
    held = [];
    heldBytes = 0;
    isTooLong = false;
    return text;
  };
  for await (const piece of stream as AsyncIterable<Buffer>) {
    let from = 0;
    for (let at = piece.indexOf(NEWLINE); at >= 0; at = piece.indexOf(NEWLINE, from)) {
      take(piece.subarray(from, at));
      from = at + 1;
      const text = line();
      if (text !== null) {
        yield text;
      }
    }
    take(piece.subarray(from));
  }
  const last = line();
  if (last !== null) {
    yield last;
  }
}

/** Limits the total memory, in bytes, that concurrent operations use. Operations that would exceed the limit wait in order of arrival. */
export class ByteBudget {
  readonly #most: number;
  #taken = 0;
  readonly #waiting: { readonly bytes: number; readonly begin: () => void }[] = [];

  constructor(most: number) {
    this.#most = most;
  }

  /** Runs `work` as soon as the budget has room for `bytes`. If `bytes` exceeds the entire budget, `work` runs alone. */
  async use<T>(bytes: number, work: () => Promise<T>): Promise<T> {
    const share = Math.min(bytes, this.#most);
    if (this.#waiting.length > 0 || this.#taken + share > this.#most) {
      await new Promise<void>((begin) => this.#waiting.push({ bytes: share, begin }));
    } else {
      this.#taken += share;
    }
    try {
      return await work();
    } finally {
      this.#taken -= share;
      this.#next();
    }
  }

  #next(): void {
    for (let [first] = this.#waiting; first !== undefined && this.#taken + first.bytes <= this.#most; [first] = this.#waiting) {
      this.#waiting.shift();
      this.#taken += first.bytes;
      first.begin();
    }
  }
}

/** Keeps the first and the newest values in a sequence, and limits the total weight of each of these two groups. */
export class FirstAndNewest<T> {
  readonly #bounds: { readonly first: number; readonly newest: number };
  readonly #first: T[] = [];
  #firstWeight = 0;
  #isFirstFull = false;
  #newest: { readonly value: T; readonly weight: number }[] = [];
  #newestWeight = 0;
  /**
   * Index of the oldest value in `#newest` that is still kept. Older values are removed in batches, because each removal copies the array.
   */
  #begin = 0;

  constructor(bounds: { readonly first: number; readonly newest: number }) {
    this.#bounds = bounds;
  }

  add(value: T, weight: number): void {
    this.#isFirstFull ||= this.#firstWeight + weight > this.#bounds.first;
    if (!this.#isFirstFull) {
      this.#first.push(value);
      this.#firstWeight += weight;
      return;
    }
    this.#newest.push({ value, weight });
    this.#newestWeight += weight;
    while (this.#newestWeight > this.#bounds.newest) {
      this.#newestWeight -= this.#newest[this.#begin]?.weight ?? 0;
      this.#begin++;
    }
    if (this.#begin * 2 > this.#newest.length) {
      this.#newest = this.#newest.slice(this.#begin);
      this.#begin = 0;
    }
  }

  get values(): T[] {
    return [...this.#first, ...this.#newest.slice(this.#begin).map(({ value }) => value)];
  }

  get weight(): number {
    return this.#firstWeight + this.#newestWeight;
  }
}

/**
 * Keeps an evenly spaced subset of a sequence. The total weight of the subset is at most `most`, and the subset always contains the newest
 * value.
 */
export class Thinned<T> {
  readonly #most: number;
  #kept: { readonly value: T; readonly weight: number }[] = [];
  #weight = 0;
  #newest: { readonly value: T; readonly weight: number } | null = null;
  #count = 0;
  #every = 1;

  constructor(most: number) {
    this.#most = most;
  }

  add(value: T, weight: number): void {
    this.#newest = { value, weight };
    if (this.#count++ % this.#every !== 0) {
      return;
    }
    this.#kept.push(this.#newest);
    this.#weight += weight;
    while (this.#weight > this.#most && this.#kept.length > 1) {
      this.#kept = this.#kept.filter((_, at) => at % 2 === 0);
      this.#every *= 2;
      this.#weight = this.#kept.reduce((sum, each) => sum + each.weight, 0);
    }
  }

  get values(): T[] {
    const values = this.#kept.map(({ value }) => value);
    return this.#newest === null || this.#isNewestKept() ? values : [...values, this.#newest.value];
  }

  get weight(): number {
    return this.#newest === null || this.#isNewestKept() ? this.#weight : this.#weight + this.#newest.weight;
  }

  #isNewestKept(): boolean {
    return this.#kept.at(-1) === this.#newest;
  }
}

/*
 * Limits (bytes) on memory use, which are necessary because the owner of a history folder can change its files. A file that is larger than
 * any file that an ApplicationMaster writes is treated as missing. Lines are read one at a time, and only the first and the newest lines
 * are kept.
 */
export const LARGEST_JOB = 4 << 20;
/** Maximum number of bytes to read for one attempt, and for all attempts of a job. */
const LARGEST_LINES = 64 << 20;
const LARGEST_ALL_LINES = 128 << 20;
const LONGEST_LINE = 256 << 10;
export const MOST_NAMES = 1_000;
/** Maximum size of the event lines to keep, in bytes. An ApplicationMaster writes at most 25,000 events of about 200 bytes. */
const FIRST_EVENTS = 2 << 20;
const NEWEST_EVENTS = 6 << 20;
/**
 * Maximum total weight of the samples to keep. The maximum allows about 20,000 values, each for one task, which is as many as a page can
 * draw. The weight of a sample is the length of its line or the memory use of its tasks, whichever is greater.
 */
const TASK_SAMPLE_BYTES = 128;
const MOST_SAMPLE_BYTES = 20_000 * TASK_SAMPLE_BYTES;

/**
 * Limits the total size of the files that are parsed concurrently, because parsing a file needs several times as much memory as its size.
 */
const READING = new ByteBudget(32 << 20);

/**
 * Reads a job's history. Ignores missing and damaged files.
 * @param withEvents whether to read the events even if final.json is complete
 * @throws TonyError ACCESS_DENIED, HDFS_UNREACHABLE
 */
export async function readRecord(storage: Storage, place: JobPlace, withEvents: boolean): Promise<JobRecord> {
  const { jobId, user, folder } = place;
  const { final, bytes } = await readFinal(storage, place);
  if (!withEvents && typeof final === 'object' && final !== null) {
    return { jobId, user, frozen: null, final, entries: [], bytes };
  }
  const [frozen, events] = await Promise.all([readFrozen(storage, place), readEvents(storage, folder)]);
  return { jobId, user, frozen, final, entries: events.entries, bytes: bytes + events.bytes };
}

/** Returns the final status, and the length of final.json. */
export async function readFinal(
  storage: Storage,
  { folder, jobId }: Pick<JobPlace, 'folder' | 'jobId'>,
): Promise<{ final: FinalStatus; bytes: number }> {
  const read = readParsed(storage, joinUri(folder, 'final.json'), LARGEST_STATUS, (text) => {
    return { final: parseFinal(text, jobId), bytes: text.length };
  });
  return (await read) ?? { final: null, bytes: 0 };
}

/** Reads job.json. Returns null if the file is missing or damaged. */
export async function readFrozen(storage: Storage, { folder }: Pick<JobPlace, 'folder'>): Promise<FrozenJob | null> {
  return readParsed(storage, joinUri(folder, 'job.json'), LARGEST_JOB, (text) => {
    try {
      return parseFrozenJob(text);
    } catch {
      return null;
    }
  });
}

/** Reads job.json, whatever its version, without validating the content. Returns undefined if the file is missing or damaged. */
export async function readConfiguration(storage: Storage, { folder }: Pick<JobPlace, 'folder'>): Promise<unknown> {
  return (await readParsed(storage, joinUri(folder, 'job.json'), LARGEST_JOB, parseJson)) ?? undefined;
}

/** Reads the events of all attempts in order. `bytes` is the size of the lines that are kept. */
export async function readEvents(storage: Storage, folder: string): Promise<{ entries: HistoryEntry[]; bytes: number }> {
  const kept = new FirstAndNewest<HistoryEntry>({ first: FIRST_EVENTS, newest: NEWEST_EVENTS });
  for await (const line of numberedLines(storage, folder, 'events')) {
    const entry = parseEntry(line);
    if (entry !== null) {
      kept.add(entry, line.length);
    }
  }
  return { entries: kept.values, bytes: kept.weight };
}

/**
 * Reads the tasks' usage samples. If there are too many samples, keeps an evenly spaced subset. `bytes` is the estimated memory use of the
 * samples.
 */
export async function readSamples(
  storage: Storage,
  { folder }: Pick<JobPlace, 'folder'>,
): Promise<{ samples: UsageSample[]; bytes: number }> {
  const kept = new Thinned<UsageSample>(MOST_SAMPLE_BYTES);
  for await (const line of numberedLines(storage, folder, 'metrics')) {
    const sample = parseSample(line);
    if (sample !== null) {
      kept.add(sample, Math.max(line.length, sample.tasks.length * TASK_SAMPLE_BYTES));
    }
  }
  return { samples: kept.values, bytes: kept.weight };
}

async function* numberedLines(storage: Storage, folder: string, kind: 'events' | 'metrics'): AsyncGenerator<string> {
  const entries = await storage.list(folder, { most: MOST_NAMES });
  const files = new Map(entries.filter(({ type, size }) => type === 'file' && size <= LARGEST_LINES).map((entry) => [entry.name, entry]));
  let left = LARGEST_ALL_LINES;
  for (const { name } of historyFiles([...files.keys()], kind)) {
    const size = files.get(name)?.size ?? 0;
    left -= size;
    if (left < 0) {
      return;
    }
    yield* fileLines(storage, joinUri(folder, name), size);
  }
}

async function* fileLines(storage: Storage, uri: string, size: number): AsyncGenerator<string> {
  try {
    const stream = await storage.open(uri, { length: size });
    try {
      yield* linesOf(stream, LONGEST_LINE);
    } finally {
      stream.destroy();
    }
  } catch (error) {
    throwUnlessMissing(uri, error);
  }
}

/** Reads and parses a file. Returns null if the file does not exist or is larger than `largest`. */
async function readParsed<T>(storage: Storage, uri: string, largest: number, parse: (text: string) => T | null): Promise<T | null> {
  let entry: Entry | null;
  try {
    entry = await storage.stat(uri);
  } catch (error) {
    throwUnlessMissing(uri, error);
    return null;
  }
  return entry === null || entry.type !== 'file' || entry.size > largest ? null : readPart(storage, uri, { length: entry.size }, parse);
}

/** Reads and parses part of a file. Returns null if the file does not exist. */
export async function readPart<T>(
  storage: Storage,
  uri: string,
  part: { readonly offset?: number; readonly length: number },
  parse: (text: string) => T | null,
): Promise<T | null> {
  try {
    return await READING.use(part.length, async () => parse((await buffer(await storage.open(uri, part))).toString()));
  } catch (error) {
    throwUnlessMissing(uri, error);
    return null;
  }
}

/** Ignores NOT_FOUND, because another process may just have removed the file. Rethrows all other errors as TonyError. */
function throwUnlessMissing(uri: string, error: unknown): void {
  if (error instanceof TonyError && error.code === 'NOT_FOUND') {
    return;
  }
  if (error instanceof TonyError) {
    throw error;
  }
  throw new TonyError('STORAGE_DENIED', `Cannot read ${uri}: ${messageOf(error)}.`, { cause: error });
}
