import { type Field, fieldsOf } from '../../contract/encoding/protobuf-reader.ts';
import { TfRecordParser } from '../../contract/encoding/tfrecord.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import type { Entry, Storage } from '../../storage/storage.ts';
import { Curve } from './curve.ts';

/*
 * The fields that curves need:
 *
 *   Event (tensorflow/core/util/event.proto): 1 wall_time double, 2 step int64, 3 file_version string, 5 summary,
 *     7 session_log { 1 status: START = 1 }
 *   Summary (framework/summary.proto): 1 value { 1 tag, 2 simple_value float, 8 tensor, 9 metadata { 1 plugin_data { 1 plugin_name } } }
 *   Tensor (framework/tensor.proto): 1 dtype, 2 shape { 2 dim }, 4 tensor_content, 5 float_val, 6 double_val, 7 int_val, 10 int64_val,
 *     11 bool_val, 13 half_val
 *
 * TensorFlow 2 writes a scalar as a tensor without dimensions whose metadata names the plugin `scalars`.
 */

export interface ScalarEvent {
  /** Seconds since the epoch. */
  readonly wallTime: number;
  readonly step: number;
  /** Set in a file's first event, for example `brain.Event:2`; otherwise null. */
  readonly fileVersion: string | null;
  /** Marks the start of a run. The values that earlier runs have written for this step and later steps become invalid. */
  readonly isStart: boolean;
  readonly values: readonly EventValue[];
}

interface EventValue {
  readonly tag: string;
  /** null if the value is not a number. */
  readonly number: number | null;
  /**
   * A `simple` value is always a scalar. A `tensor` value is a scalar if its tag belongs to the `scalars` plugin. Only the first value of a
   * tag names the plugin.
   */
  readonly form: 'simple' | 'tensor' | 'other';
  readonly plugin: string | null;
}

/** Another user may have written the file, and a value has two bytes or more, so a record could contain half a million of them. */
const MOST_VALUES = 10_000;

const DOUBLE = 1;
const VARINT = 0;
const BYTES = 2;
const FLOAT = 5;
/** Tensor types, framework/types.proto. */
const DT = { float: 1, double: 2, int32: 3, int64: 9, bool: 10, bfloat16: 14, half: 19 } as const;

/** @throws TonyError DATA_INVALID if the bytes are not an event, or if the event has more than 10,000 values. */
export function decodeEvent(data: Buffer): ScalarEvent {
  let wallTime = 0;
  let step = 0;
  let fileVersion: string | null = null;
  let isStart = false;
  const values: EventValue[] = [];
  for (const field of fieldsOf(data)) {
    if (field.number === 1 && field.type === DOUBLE) {
      wallTime = field.bytes.readDoubleLE();
    } else if (field.number === 2 && field.type === VARINT) {
      step = field.varint;
    } else if (field.number === 3 && field.type === BYTES) {
      fileVersion = field.bytes.toString('utf8');
    } else if (field.number === 5 && field.type === BYTES) {
      for (const value of fieldsOf(field.bytes)) {
        if (value.number === 1 && value.type === BYTES) {
          if (values.length === MOST_VALUES) {
            throw new TonyError('DATA_INVALID', `an event has more than ${MOST_VALUES} values`);
          }
          values.push(decodeValue(value.bytes));
        }
      }
    } else if (field.number === 7 && field.type === BYTES) {
      isStart = [...fieldsOf(field.bytes)].some(({ number, type, varint }) => number === 1 && type === VARINT && varint === 1);
    }
  }
  return { wallTime, step, fileVersion, isStart, values };
}

function decodeValue(data: Buffer): EventValue {
  let tag = '';
  let number: number | null = null;
  let form: EventValue['form'] = 'other';
  let plugin: string | null = null;
  for (const field of fieldsOf(data)) {
    if (field.number === 1 && field.type === BYTES) {
      tag = field.bytes.toString('utf8');
    } else if (field.number === 2 && field.type === FLOAT) {
      form = 'simple';
      number = shortest(field.bytes.readFloatLE());
    } else if (field.number === 8 && field.type === BYTES) {
      form = 'tensor';
      number = decodeTensor(field.bytes);
    } else if (field.number === 9 && field.type === BYTES) {
      plugin = pluginOf(field.bytes);
    }
  }
  return { tag, number, form, plugin };
}

function pluginOf(metadata: Buffer): string | null {
  for (const field of fieldsOf(metadata)) {
    if (field.number !== 1 || field.type !== BYTES) {
      continue;
    }
    for (const part of fieldsOf(field.bytes)) {
      if (part.number === 1 && part.type === BYTES) {
        return part.bytes.toString('utf8');
      }
    }
  }
  return null;
}

/** Returns the number in a tensor without dimensions, or null for any other tensor. */
function decodeTensor(data: Buffer): number | null {
  let type = 0;
  let content: Buffer | null = null;
  let listed: Field | null = null;
  for (const field of fieldsOf(data)) {
    if (field.number === 1 && field.type === VARINT) {
      type = field.varint;
    } else if (field.number === 2 && field.type === BYTES) {
      if ([...fieldsOf(field.bytes)].some((part) => part.number === 2)) {
        return null;
      }
    } else if (field.number === 4) {
      content = field.bytes;
    } else if (LISTS.has(field.number)) {
      listed ??= field;
    }
  }
  if (content !== null && content.length > 0) {
    return fromContent(type, content);
  }
  // Writers may omit a tensor's content if its value is 0.
  return listed === null ? (KNOWN.has(type) ? 0 : null) : fromList(type, listed);
}

const LISTS: ReadonlySet<number> = new Set([5, 6, 7, 10, 11, 13]);
const KNOWN: ReadonlySet<number> = new Set(Object.values(DT));

function fromContent(type: number, content: Buffer): number | null {
  const read = (size: number, value: () => number): number | null => (content.length === size ? value() : null);
  switch (type) {
    case DT.float:
      return read(4, () => shortest(content.readFloatLE()));
    case DT.double:
      return read(8, () => content.readDoubleLE());
    case DT.int32:
      return read(4, () => content.readInt32LE());
    case DT.int64:
      return read(8, () => Number(content.readBigInt64LE()));
    case DT.bool:
      return read(1, () => content.readUInt8());
    case DT.half:
      return read(2, () => halfOf(content.readUInt16LE()));
    case DT.bfloat16:
      return read(2, () => bfloatOf(content.readUInt16LE()));
    default:
      return null;
  }
}

/** Decodes a list that contains one number, packed (as bytes) or unpacked. */
function fromList(type: number, field: Field): number | null {
  const { bytes } = field;
  if (type === DT.float) {
    return bytes.length === 4 ? shortest(bytes.readFloatLE()) : null;
  }
  if (type === DT.double) {
    return bytes.length === 8 ? bytes.readDoubleLE() : null;
  }
  const number = field.type === VARINT ? field.varint : singleVarint(bytes);
  if (number === null) {
    return null;
  }
  switch (type) {
    case DT.int32:
      return number | 0;
    case DT.int64:
      return number;
    case DT.bool:
      return number === 0 ? 0 : 1;
    case DT.half:
      return halfOf(number & 0xffff);
    case DT.bfloat16:
      return bfloatOf(number & 0xffff);
    default:
      return null;
  }
}

function singleVarint(bytes: Buffer): number | null {
  // Prepends a field tag, because the decoder reads only fields.
  const fields = [...fieldsOf(Buffer.concat([Buffer.of(0x08), bytes]))];
  return fields.length === 1 ? (fields[0]?.varint ?? null) : null;
}

/** Rounds a 32-bit float to the fewest digits that identify it: 0.1 instead of 0.10000000149011612. */
function shortest(float: number): number {
  for (const digits of [7, 8]) {
    const candidate = Number(float.toPrecision(digits));
    if (Math.fround(candidate) === float) {
      return candidate;
    }
  }
  return float;
}

/** Decodes an IEEE 754 binary16. */
function halfOf(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0x1f) {
    return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  }
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15));
}

/** Decodes the upper half of an IEEE 754 binary32. */
function bfloatOf(bits: number): number {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt16LE(bits, 2);
  return bytes.readFloatLE();
}

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
