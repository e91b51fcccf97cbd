import { messageOf } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import type { Entry, Storage } from '../../storage/storage.ts';
import { TfRecordParser } from '../../training/encoding/tfrecord.ts';
import { Curve } from './curve.ts';
import { decodeEvent, type EventValue } from './event-decoder.ts';

/** The maximum size in bytes of a record. The reader skips longer records, which contain images or graphs, without buffering them. */
const MAXIMUM_RECORD_BYTES = 1024 * 1024;

/** The maximum length of a tag. The reader keeps every tag in memory and therefore ignores longer tags. */
const LONGEST_TAG = 1024;

/** The number of records between calls to `yieldIfDue`. Reading one record takes a few microseconds. */
const RECORDS_PER_CHECK = 32;

export interface RunReaderOptions {
  readonly name: string;
  readonly storage: Storage;
  readonly log: Logger;
  readonly yieldIfDue: () => Promise<void>;
  readonly mayGrow: () => boolean;
}

/**
 * Reads the curves from one folder of event files. As in TensorBoard, the reader reads the files in name order, and never returns to an
 * earlier file.
 */
export class RunReader {
  readonly name: string;
  readonly curves = new Map<string, Curve>();
  readonly #options: RunReaderOptions;
  #file: EventFile | null = null;
  #damage = 0;

  constructor(options: RunReaderOptions) {
    this.name = options.name;
    this.#options = options;
  }

  /** The number of skipped records and truncated files. */
  get damage(): number {
    return this.#damage;
  }

  unread(files: readonly Entry[]): number {
    return files.reduce((sum, file) => sum + this.#unreadOf(file), 0);
  }

  #unreadOf({ name, size }: Entry): number {
    if (this.#file === null || name > this.#file.name) {
      return size;
    }
    const { records } = this.#file;
    return name < this.#file.name || records.isLost ? 0 : Math.max(0, size - records.taken);
  }

  /**
   * Reads new data.
   * @param files the folder's event files, sorted by name.
   */
  async read(files: readonly Entry[], onBytes: (count: number) => void): Promise<void> {
    const current = files.find(({ name }) => name === this.#file?.name);
    if (files.length === 0 || (current !== undefined && current.size < (this.#file?.records.taken ?? 0))) {
      // The current file was removed or rewritten, so its curves are invalid.
      this.curves.clear();
      this.#file = null;
      this.#damage = 0;
    }
    for (const file of files) {
      if (this.#unreadOf(file) === 0) {
        continue;
      }
      if (this.#file?.name !== file.name) {
        if (this.#file?.records.isWithinRecord) {
          this.#reportDamage(this.#file.name, 'ends within a record');
        }
        this.#file = openFile(file.name);
      }
      await this.#readOn(file, this.#file, onBytes);
    }
  }

  async #readOn(file: Entry, open: EventFile, onBytes: (count: number) => void): Promise<void> {
    const { storage, yieldIfDue } = this.#options;
    const { records } = open;
    const before = open.damaged;
    const stream = await storage.open(file.uri, { offset: records.taken });
    let seen = 0;
    for await (const piece of stream as AsyncIterable<Buffer>) {
      for (const record of records.push(piece)) {
        this.#take(file.name, record);
        seen++;
        if (seen % RECORDS_PER_CHECK === 0) {
          await yieldIfDue();
        }
      }
      onBytes(piece.length);
      await yieldIfDue();
      if (records.isLost) {
        break;
      }
    }
    const damaged = open.damaged - before;
    if (damaged > 0) {
      this.#reportDamage(file.name, `contains ${damaged} damaged records`, damaged);
    }
    if (records.isLost) {
      this.#reportDamage(file.name, 'is damaged; the rest of it is skipped');
    }
  }

  #take(file: string, record: Buffer): void {
    try {
      const { wallTime, step, isStart, values } = decodeEvent(record);
      if (isStart) {
        for (const curve of this.curves.values()) {
          curve.dropFrom(step);
        }
      }
      const time = Math.round(wallTime * 1000) / 1000;
      for (const value of values) {
        this.#add(value, step, time);
      }
    } catch (error) {
      this.#reportDamage(file, `contains a record that is not an event: ${messageOf(error)}`);
    }
  }

  #add({ tag, number, form, plugin }: EventValue, step: number, time: number): void {
    if (number === null || tag.length > LONGEST_TAG) {
      return;
    }
    let curve = this.curves.get(tag);
    // Only the first value of a tag names its plugin.
    const isScalar = form === 'simple' || plugin === 'scalars' || (plugin === null && curve !== undefined);
    if (!isScalar) {
      return;
    }
    if (curve === undefined) {
      if (!this.#options.mayGrow()) {
        return;
      }
      curve = new Curve();
      this.curves.set(tag, curve);
    }
    curve.add(step, time, number);
  }

  #reportDamage(file: string, text: string, count = 1): void {
    this.#damage += count;
    this.#options.log.warn({ run: this.name, file }, `the event file ${text}`);
  }
}

/** The current file's state. A growing file may end within a record; the parser buffers the incomplete record. */
interface EventFile {
  readonly name: string;
  readonly records: TfRecordParser;
  damaged: number;
}

function openFile(name: string): EventFile {
  const records = new TfRecordParser({
    where: name,
    offset: 0,
    end: Number.POSITIVE_INFINITY,
    maxRecordBytes: MAXIMUM_RECORD_BYTES,
    onDamage: (_, kind) => {
      if (kind === 'record') {
        file.damaged++;
      }
    },
  });
  const file: EventFile = { name, records, damaged: 0 };
  return file;
}
