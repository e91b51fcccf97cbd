import { type FileHandle, open } from 'node:fs/promises';
import {
  AsyncMessageReader,
  type Data,
  DataType,
  type Field,
  MessageHeader,
  Precision,
  RecordBatchReader,
  TimeUnit,
  type Vector,
} from 'apache-arrow';
import type { AsyncRandomAccessFile } from 'apache-arrow/io/file';
import { type ColumnValues, listValues, numberValues, type StoredNumbers } from '../formats/tables/column-values.ts';
import type { ScalarKind, ValueKind } from '../formats/tables/value-kinds.ts';

/*
 * The only module that imports apache-arrow. It is a bundle of its own, so that only programs that read DataFrames load it. It therefore
 * throws plain errors: an error class in this bundle would not be the one of the library.
 */

export interface ArrowField {
  readonly name: string;
  /** Null if elements of a dataset cannot hold values of this type. */
  readonly kind: ValueKind | null;
  /** Arrow's name of the type, for error messages. */
  readonly type: string;
}

interface StoredBatch {
  readonly from: number;
  readonly to: number;
  readonly rows: number;
}

/** The messages of a file. The reader must move `place` from each message to the end of its body. */
class FileMessages extends AsyncMessageReader {
  get place(): AsyncRandomAccessFile {
    return this.source as AsyncRandomAccessFile;
  }
}

/** A file with a stream of Arrow record batches. Reads one record batch at a time, in any order. */
export class ArrowStream {
  readonly fields: readonly ArrowField[];
  readonly #file: FileHandle;
  readonly #schema: Uint8Array;
  readonly #batches: readonly StoredBatch[];

  private constructor(file: FileHandle, schema: Uint8Array, batches: readonly StoredBatch[]) {
    this.#file = file;
    this.#schema = schema;
    this.#batches = batches;
    const reader = RecordBatchReader.from(joined(schema)).open();
    this.fields = reader.schema.fields.map((field) => ({ name: field.name, kind: kindOf(field.type), type: String(field.type) }));
  }

  /** @throws Error if the file is not a complete stream. */
  static async open(path: string): Promise<ArrowStream> {
    const file = await open(path);
    try {
      const { size } = await file.stat();
      const messages = new FileMessages(file, size);
      const batches: StoredBatch[] = [];
      let schemaEnd = 0;
      for (let from = 0; ; from = messages.place.position) {
        const message = await messages.readMessage();
        if (message === null) {
          break;
        }
        const to = messages.place.position + message.bodyLength;
        if (to > size) {
          throw new Error('the file ends within a record batch');
        }
        if (message.isRecordBatch()) {
          batches.push({ from, to, rows: message.header().length });
        } else if (message.headerType === MessageHeader.Schema && from === 0) {
          schemaEnd = to;
        } else {
          throw new Error(`a message of the type ${MessageHeader[message.headerType]} is not supported`);
        }
        await messages.place.seek(to);
      }
      return new ArrowStream(file, await readBytes(file, 0, schemaEnd), batches);
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  /** The number of rows of each record batch. */
  get sizes(): readonly number[] {
    return this.#batches.map(({ rows }) => rows);
  }

  /** Returns the size in bytes of a record batch. */
  bytesOf(index: number): number {
    const { from, to } = this.#batches[index] as StoredBatch;
    return to - from;
  }

  /** Reads columns of a record batch. */
  async read(index: number, columns: readonly number[]): Promise<ColumnValues[]> {
    const { from, to } = this.#batches[index] as StoredBatch;
    const reader = RecordBatchReader.from(joined(this.#schema, await readBytes(this.#file, from, to)));
    const [batch] = [...reader];
    return columns.map((column) => columnOf(batch?.getChildAt(column) as Vector));
  }

  async close(): Promise<void> {
    await this.#file.close();
  }
}

/** The end of a stream: a marker, and the length 0 of the next message. */
const END = Uint8Array.of(0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0);

/** Joins messages to a stream. Each message has a multiple of 8 bytes, so the numbers in it are aligned. */
function joined(...messages: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(messages.reduce((sum, { length }) => sum + length, END.length));
  let at = 0;
  for (const message of [...messages, END]) {
    bytes.set(message, at);
    at += message.length;
  }
  return bytes;
}

async function readBytes(file: FileHandle, from: number, to: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(to - from);
  for (let at = 0; at < bytes.length; ) {
    const { bytesRead } = await file.read(bytes, at, bytes.length - at, from + at);
    if (bytesRead === 0) {
      throw new Error('the file ends within a message');
    }
    at += bytesRead;
  }
  return bytes;
}

function kindOf(type: DataType): ValueKind | null {
  if (DataType.isList(type) || DataType.isLargeList(type) || DataType.isFixedSizeList(type)) {
    const items = scalarKindOf((type.children[0] as Field).type);
    return items === null ? null : { list: items };
  }
  return scalarKindOf(type);
}

const TICKS_PER_MILLISECOND: Partial<Record<TimeUnit, number>> = {
  [TimeUnit.MILLISECOND]: 1,
  [TimeUnit.MICROSECOND]: 1000,
  [TimeUnit.NANOSECOND]: 1_000_000,
};

function scalarKindOf(type: DataType): ScalarKind | null {
  if (DataType.isBool(type)) {
    return 'boolean';
  }
  // A date is the number of days since 1970.
  if (DataType.isInt(type) || (DataType.isDate(type) && type.ArrayType === Int32Array)) {
    return 'integer';
  }
  if (DataType.isFloat(type)) {
    return type.precision === Precision.SINGLE ? 'float' : type.precision === Precision.DOUBLE ? 'double' : null;
  }
  if (DataType.isUtf8(type) || DataType.isLargeUtf8(type)) {
    return 'text';
  }
  if (DataType.isBinary(type) || DataType.isLargeBinary(type) || DataType.isFixedSizeBinary(type)) {
    return 'bytes';
  }
  const ticksPerMillisecond = DataType.isTimestamp(type) ? TICKS_PER_MILLISECOND[type.unit] : undefined;
  return ticksPerMillisecond === undefined ? null : { ticksPerMillisecond };
}

function columnOf(vector: Vector): ColumnValues {
  const { type, nullCount, length: rows } = vector;
  const data = vector.data[0] as Data;
  const isValid = nullCount === 0 ? null : (row: number) => vector.isValid(row);
  if (DataType.isList(type) || DataType.isLargeList(type) || DataType.isFixedSizeList(type)) {
    const offsets: ArrayLike<number> = DataType.isFixedSizeList(type)
      ? Float64Array.from({ length: rows + 1 }, (_, row) => row * type.listSize)
      : Float64Array.from(data.valueOffsets as Iterable<number | bigint>, Number);
    return listValues(offsets, rows, columnOf(vector.getChildAt(0) as Vector), isValid);
  }
  if (DataType.isInt(type) || DataType.isFloat(type) || DataType.isDate(type) || DataType.isTimestamp(type)) {
    return numberValues((data.values as StoredNumbers).subarray(0, rows) as StoredNumbers, isValid);
  }
  return { numbers: null, list: null, rows, hasNulls: nullCount > 0, get: (row) => vector.get(row) };
}
