import type { Type, types } from 'avsc';
import { messageOf, TonyError } from '../../../../platform/errors.ts';
import type { DataFile } from '../../reading/file-set.ts';
import type { ReadContext } from '../../reading/read-context.ts';
import type { FileFormat } from '../../reading/split.ts';
import { readContents } from '../file-bytes.ts';
import { MAX_RECORD_BYTES } from '../tfrecord-format.ts';
import type { AvroBlock, AvroHeader } from './avro-file.ts';
import { type AvroCursor, readerOf } from './avro-reader.ts';
import { ByteWindow } from './byte-window.ts';
import { selectColumns, type TableOptions, type TableRow, type TableValue, type ValueKind, valueConverter } from './table-values.ts';

export interface AvroOptions extends TableOptions {
  /** Maximum size of a block in bytes. A larger block is rejected before memory is allocated. Default: 256 MiB. */
  readonly maxRecordBytes?: number;
}

const SYNC_BYTES = 16;
/** Maximum number of records in a block. A limit in bytes is not sufficient, because records of some types are zero bytes long. */
const MAX_RECORDS_PER_BLOCK = 16 * 1024 * 1024;

/**
 * Creates the format for Avro object container files. Each record becomes a row. A block belongs to the split that contains its first byte.
 * Sync markers separate the blocks, so a reader begins after the first marker that ends in its split. Positions are block offsets.
 */
export function avroFormat(options: AvroOptions): FileFormat<TableRow> {
  const mostBytes = options.maxRecordBytes ?? MAX_RECORD_BYTES;
  return {
    isSplittable: () => true,
    async *read({ file, from, to }, resumeAt, context) {
      const { readBlock, skipToBlock } = await import('./avro-file.ts');
      const header = await headerOf(file, context);
      const decode = decoderOf(header, options, mostBytes, file);
      const start = resumeAt === null ? Math.max(header.end, from - SYNC_BYTES) : (resumeAt as number);
      const window = new ByteWindow(readContents(file, 'none', start, context), start);
      try {
        if (resumeAt === null && start !== header.end && !(await skipToBlock(window, header))) {
          return;
        }
        while (window.offset < to) {
          const block = await readBlock(window, header, mostBytes, file.uri);
          if (block === null) {
            return;
          }
          if (block.count > 0) {
            yield { items: decode(block), from: block.offset, bytes: block.data.length };
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

function decoderOf(header: AvroHeader, options: AvroOptions, mostBytes: number, { uri }: DataFile): (block: AvroBlock) => TableRow[] {
  const { type } = header;
  if (type.typeName !== 'record') {
    throw new TonyError('DATA_INVALID', `${uri} contains ${type.typeName} values instead of records`);
  }
  const read = readRecordOf(type, uri);
  const fields = (type as types.RecordType).fields.map((field) => ({ name: field.name, type: field.type }));
  const converters = selectColumns(fields, options, uri).map(({ name, type: own }) => {
    return { name, convert: valueConverter({ name, kind: kindOf(own, `${uri}: column ${name}`) }, options) };
  });
  const rowOf = (record: Readonly<Record<string, unknown>>): TableRow =>
    Object.fromEntries(converters.map(({ name, convert }): [string, TableValue] => [name, convert(record[name])]));
  return ({ offset, count, data }) => {
    let row = 0;
    try {
      if (count > MAX_RECORDS_PER_BLOCK) {
        throw new Error(`it declares ${count} records`);
      }
      const cursor: AvroCursor = { bytes: header.unpack(data, mostBytes), at: 0 };
      const rows: TableRow[] = [];
      for (; row < count; row++) {
        rows.push(rowOf(read(cursor) as Record<string, unknown>));
      }
      return rows;
    } catch (error) {
      throw new TonyError('DATA_INVALID', `${uri}, block at byte ${offset}, record ${row}: ${messageOf(error)}`, { cause: error });
    }
  };
}

function readRecordOf(type: Type, uri: string): ReturnType<typeof readerOf> {
  try {
    return readerOf(type);
  } catch (error) {
    throw new TonyError('DATA_INVALID', `${uri} cannot be read: ${messageOf(error)}`, { cause: error });
  }
}

/** @throws TonyError DATA_INVALID if no tensor can hold values of this type. */
function kindOf(type: Type, where: string): ValueKind {
  switch (type.typeName) {
    case 'boolean':
      return 'boolean';
    case 'int':
    case 'long':
      return 'integer';
    case 'float':
      return 'float';
    case 'double':
      return 'double';
    case 'string':
    case 'enum':
      return 'text';
    case 'bytes':
    case 'fixed':
      return 'bytes';
    case 'array':
      return { list: kindOf((type as types.ArrayType).itemsType, where) };
    case 'record':
      return {
        fields: Object.fromEntries(
          (type as types.RecordType).fields.map((field) => [field.name, kindOf(field.type, `${where}.${field.name}`)]),
        ),
      };
    case 'union:unwrapped': {
      const [only, ...others] = (type as types.UnwrappedUnionType).types.filter(({ typeName }) => typeName !== 'null');
      if (only !== undefined && others.length === 0) {
        return kindOf(only, where);
      }
    }
  }
  throw new TonyError('DATA_INVALID', `${where} has the type ${type.typeName}, which has no equivalent in a dataset`, {
    hint: 'Name the columns to read: `columns: [...]`. A union may contain null and one other type.',
  });
}
