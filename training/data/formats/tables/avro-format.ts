import { TonyError } from '../../../../platform/errors.ts';
import type { DataFile } from '../../reading/file-set.ts';
import type { ReadContext } from '../../reading/read-context.ts';
import type { FileFormat } from '../../reading/split.ts';
import { decoding, undecodable } from '../damage.ts';
import { readContents } from '../file-bytes.ts';
import { MAX_RECORD_BYTES } from '../tfrecord-format.ts';
import type { AvroBlock, AvroHeader } from './avro-file.ts';
import { type AvroCursor, type AvroReader, AvroReaders, countEmptyValue } from './avro-reader.ts';
import type { AvroRecord, AvroType } from './avro-schema.ts';
import { ByteWindow } from './byte-window.ts';
import { type Converter, columnConverter, requireDistinct, selectColumns, type TableOptions, type TableRow } from './table-values.ts';
import type { ValueKind } from './value-kinds.ts';

export interface AvroOptions extends TableOptions {
  /** Maximum size of a block in bytes. A larger block is rejected before memory is allocated. Default: 256 MiB. */
  readonly maxRecordBytes?: number;
}

const SYNC_BYTES = 16;
const ROWS_PER_CHUNK = 1024;
/**
 * Maximum number of values that take no bytes: in each split, and for each byte of its data. A limit in bytes is not sufficient, because a
 * block of a few bytes can declare any number of such values.
 */
const EMPTY_VALUES = 256 * 1024;
const EMPTY_VALUES_PER_BYTE = 16;

/**
 * Creates the format for Avro object container files. Each record becomes a row. A block belongs to the split that contains its first byte.
 * Sync markers separate the blocks, so a reader begins after the first marker that ends in its split. Positions are [block offset, row].
 */
export function avroFormat(options: AvroOptions): FileFormat<TableRow> {
  const mostBytes = options.maxRecordBytes ?? MAX_RECORD_BYTES;
  return {
    isSplittable: () => true,
    async *read({ file, from, to }, resumeAt, context) {
      const { readBlock, skipToBlock } = await import('./avro-file.ts');
      const header = await headerOf(file, context);
      const decoder = new BlockDecoder(header, options, mostBytes, file.uri);
      const [resumeBlock, resumeRow] = (resumeAt ?? [null, 0]) as [number | null, number];
      const start = resumeBlock ?? Math.max(header.end, from - SYNC_BYTES);
      const window = new ByteWindow(readContents(file, 'none', start, context), start);
      try {
        if (resumeBlock === null && start !== header.end && !(await skipToBlock(window, header))) {
          return;
        }
        while (window.offset < to) {
          const block = await readBlock(window, header, mostBytes, file.uri);
          if (block === null) {
            return;
          }
          for (const { rows, first, bytes } of decoder.decode(block, block.offset === resumeBlock ? resumeRow : 0)) {
            yield { items: rows, from: [block.offset, first], bytes };
          }
        }
      } finally {
        await window.close();
      }
    },
  };
}

async function headerOf(file: DataFile, context: ReadContext): Promise<AvroHeader> {
  const { readAvroHeader } = await import('./avro-file.ts');
  const window = new ByteWindow(readContents(file, 'none', 0, context), 0);
  try {
    return await readAvroHeader(window, file.uri);
  } finally {
    await window.close();
  }
}

interface DecodedRows {
  readonly rows: TableRow[];
  /** The index of the first row in the block. */
  readonly first: number;
  readonly bytes: number;
}

class BlockDecoder {
  readonly #header: AvroHeader;
  readonly #mostBytes: number;
  readonly #uri: string;
  readonly #fields: readonly (readonly [name: string, read: AvroReader, convert: Converter | null])[];
  readonly #skip: AvroReader;
  #emptyValues = EMPTY_VALUES;

  constructor(header: AvroHeader, options: AvroOptions, mostBytes: number, uri: string) {
    this.#header = header;
    this.#mostBytes = mostBytes;
    this.#uri = uri;
    const { type } = header;
    if (type.type !== 'record') {
      throw new TonyError('DATA_INVALID', `${uri} contains ${type.type} values instead of records`);
    }
    const chosen = new Set(selectColumns(type.fields, options, uri));
    const kinds = new AvroKinds();
    const readers = new AvroReaders();
    this.#fields = decoding(`${uri} cannot be read`, () =>
      type.fields.map((field) => {
        if (!chosen.has(field)) {
          return [field.name, readers.skipper(field.type), null] as const;
        }
        const kind = kinds.of(field.type, `${uri}: column ${field.name}`);
        return [field.name, readers.reader(field.type), columnConverter({ name: field.name, kind }, options, uri)] as const;
      }),
    );
    this.#skip = decoding(`${uri} cannot be read`, () => readers.skipper(type));
  }

  /** Decodes a block's rows from `first` on. */
  *decode({ offset, count, data }: AvroBlock, first: number): Generator<DecodedRows, void> {
    let row = 0;
    try {
      const cursor: AvroCursor = { bytes: this.#header.unpack(data, this.#mostBytes), at: 0, emptyValues: 0 };
      cursor.emptyValues = this.#emptyValues + EMPTY_VALUES_PER_BYTE * cursor.bytes.length;
      for (; row < Math.min(first, count); row++) {
        this.#endRow(cursor, cursor.at, this.#skip(cursor));
      }
      while (row < count) {
        const begin = row;
        const end = Math.min(count, begin + ROWS_PER_CHUNK);
        const rows: TableRow[] = [];
        for (; row < end; row++) {
          rows.push(this.#row(cursor));
        }
        yield { rows, first: begin, bytes: (data.length * (end - begin)) / count };
      }
      this.#emptyValues = cursor.emptyValues;
    } catch (error) {
      throw undecodable(error, `${this.#uri}, block at byte ${offset}, record ${row}`);
    }
  }

  #row(cursor: AvroCursor): TableRow {
    const { at } = cursor;
    const entries: [string, ReturnType<Converter>][] = [];
    for (const [name, read, convert] of this.#fields) {
      const stored = read(cursor);
      if (convert !== null) {
        entries.push([name, convert(stored)]);
      }
    }
    return this.#endRow(cursor, at, Object.fromEntries(entries));
  }

  #endRow<T>(cursor: AvroCursor, began: number, row: T): T {
    if (cursor.at === began) {
      countEmptyValue(cursor);
    }
    return row;
  }
}

/** Finds the kinds of types. Looks at each type once, however often the schema refers to it. */
class AvroKinds {
  readonly #kinds = new Map<AvroType, ValueKind | null>();

  /** @throws TonyError DATA_INVALID if no element can hold values of this type. */
  of(type: AvroType, where: string): ValueKind {
    const known = this.#kinds.get(type);
    if (known === null) {
      throw unsupported(where, 'recursive');
    }
    if (known !== undefined) {
      return known;
    }
    this.#kinds.set(type, null);
    const kind = this.#kindOf(type, where);
    this.#kinds.set(type, kind);
    return kind;
  }

  #kindOf(type: AvroType, where: string): ValueKind {
    switch (type.type) {
      case 'null':
      case 'boolean':
      case 'float':
      case 'double':
        return type.type;
      case 'int':
      case 'long':
        return type.logical ?? 'integer';
      case 'string':
      case 'enum':
        return 'text';
      case 'bytes':
      case 'fixed':
        return type.logical ?? 'bytes';
      case 'array':
        return { list: this.of(type.items, where) };
      case 'record':
        return this.#fieldsOf(type, where);
      case 'union': {
        const [only, ...others] = type.branches.filter((branch) => branch.type !== 'null');
        if (others.length === 0) {
          return only === undefined ? 'null' : this.of(only, where);
        }
        throw unsupported(where, type.branches.map((branch) => branch.type).join(' or '));
      }
      case 'map':
        throw unsupported(where, type.type);
    }
  }

  #fieldsOf({ fields }: AvroRecord, where: string): ValueKind {
    requireDistinct(fields, `${where} has two fields called`);
    return { fields: fields.map(({ name, type }) => ({ name, kind: this.of(type, `${where}.${name}`) })) };
  }
}

function unsupported(where: string, type: string): TonyError {
  return new TonyError('DATA_INVALID', `${where} has the type ${type}, which has no equivalent in a dataset`, {
    hint: 'Name the columns to read: `columns: [...]`. A union may contain null and one other type.',
  });
}
