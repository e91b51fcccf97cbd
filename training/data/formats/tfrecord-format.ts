import { maskedSumsOf } from '../../../contract/encoding/crc32c.ts';
import { TfRecordParser } from '../../../contract/encoding/tfrecord.ts';
import type { DataFile } from '../reading/file-set.ts';
import type { ReadContext } from '../reading/read-context.ts';
import type { FileFormat } from '../reading/split.ts';
import { damageHandler, skipUnreadable } from './damage.ts';
import { type Compression, compressionFrom, compressionOf, readContents, readRange } from './file-bytes.ts';

export interface RecordOptions {
  /** How the files are compressed. By default, the file name decides (`.gz`, `.zlib`), and for TFRecord files also the first bytes. */
  readonly compression?: Compression;
  /** Whether to skip and count damaged records. Otherwise, a damaged record is an error. Default: false. */
  readonly skipDamaged?: boolean;
  /** Maximum size of a record in bytes. A larger record is rejected before memory is allocated. Default: 256 MiB. */
  readonly maxRecordBytes?: number;
}

export const MAX_RECORD_BYTES = 256 * 1024 * 1024;
const HEADER_BYTES = 12;

/** Creates the format for TFRecord files. Positions are record offsets in the uncompressed contents. */
export function tfRecordFormat(options: RecordOptions): FileFormat<Buffer> {
  return {
    isSplittable: () => false,
    async *read({ file }, from, context) {
      const offset = (from as number | null) ?? 0;
      const onDamage = damageHandler(options, context.onDamage);
      const { compression, pieces } = await openRecords(file, options.compression ?? 'auto', offset, context);
      const parser = new TfRecordParser({
        where: file.uri,
        offset,
        end: compression === 'none' ? file.size : Number.POSITIVE_INFINITY,
        maxRecordBytes: options.maxRecordBytes ?? MAX_RECORD_BYTES,
        onDamage,
      });
      try {
        for await (const bytes of pieces) {
          const place = parser.offset;
          const items = parser.push(bytes);
          if (items.length > 0) {
            yield { items, from: place, bytes: bytes.length };
          }
          if (parser.isLost) {
            return;
          }
        }
      } catch (error) {
        skipUnreadable(error, onDamage);
      }
      parser.finish();
    },
  };
}

interface Contents {
  readonly compression: 'none' | 'gzip' | 'zlib';
  readonly pieces: AsyncIterable<Buffer>;
}

/**
 * Opens a file. TensorFlow's writers add no suffix to the name of a compressed file, so the first bytes of a file without a suffix decide.
 * Usually, these bytes are the beginning of the first record, and the file need not be opened again.
 */
async function openRecords(file: DataFile, option: Compression, offset: number, context: ReadContext): Promise<Contents> {
  const named = compressionOf(file, option);
  if (option !== 'auto' || named !== 'none') {
    return { compression: named, pieces: readContents(file, named, offset, context) };
  }
  if (offset > 0) {
    const head = Buffer.from(await readRange(file, 0, Math.min(HEADER_BYTES, file.size), context));
    const compression = compressionOfHead(head);
    return { compression, pieces: readContents(file, compression, offset, context) };
  }
  const stream = readContents(file, 'none', 0, context);
  const first: Buffer[] = [];
  let length = 0;
  while (length < HEADER_BYTES) {
    const { done, value } = await stream.next();
    if (done) {
      break;
    }
    first.push(value);
    length += value.length;
  }
  const compression = compressionOfHead(Buffer.concat(first).subarray(0, HEADER_BYTES));
  if (compression !== 'none') {
    await stream.return();
    return { compression, pieces: readContents(file, compression, 0, context) };
  }
  return { compression, pieces: joined(first, stream) };
}

/** Bytes whose checksum is right are the length of a record, whatever else they look like. */
function compressionOfHead(head: Buffer): Contents['compression'] {
  const isRecord = head.length === HEADER_BYTES && head.readUInt32LE(8) === maskedSumsOf(head)(0, 8);
  return isRecord ? 'none' : compressionFrom(head);
}

async function* joined(first: readonly Buffer[], stream: AsyncGenerator<Buffer, void>): AsyncGenerator<Buffer, void> {
  try {
    yield* first;
    yield* stream;
  } finally {
    await stream.return();
  }
}
