import type { TonyError } from '../../../platform/errors.ts';
import { TfRecordParser } from '../../encoding/tfrecord.ts';
import type { FileFormat } from '../reading/split.ts';
import { type Compression, compressionOf, readContents } from './file-bytes.ts';

export interface RecordOptions {
  /** How the files are compressed. By default, the file name decides (`.gz`, `.zlib`). */
  readonly compression?: Compression;
  /** Whether to skip and count damaged records. Otherwise, a damaged record is an error. Default: false. */
  readonly skipDamaged?: boolean;
  /** Maximum size of a record in bytes. A larger record is rejected before memory is allocated. Default: 256 MiB. */
  readonly maxRecordBytes?: number;
}

export const MAX_RECORD_BYTES = 256 * 1024 * 1024;

/** Creates the format for TFRecord files. Positions are record offsets in the uncompressed contents. */
export function tfRecordFormat(options: RecordOptions): FileFormat<Buffer> {
  return {
    isSplittable: () => false,
    async *read({ file }, from, context) {
      const compression = compressionOf(file, options.compression ?? 'auto');
      const offset = (from as number | null) ?? 0;
      const onDamage = damageHandler(options, context.onDamage);
      const parser = new TfRecordParser({
        where: file.uri,
        offset,
        end: compression === 'none' ? file.size : Number.POSITIVE_INFINITY,
        maxRecordBytes: options.maxRecordBytes ?? MAX_RECORD_BYTES,
        onDamage,
      });
      try {
        for await (const bytes of readContents(file, compression, offset, context)) {
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

export function damageHandler(options: RecordOptions, onSkip: (damage: TonyError) => void): (damage: TonyError) => void {
  return (damage) => {
    if (options.skipDamaged !== true) {
      throw damage;
    }
    onSkip(damage);
  };
}

/** Handles a read error. Reports damage, including failed decompression, to `onDamage`, and rethrows all other errors. */
export function skipUnreadable(error: unknown, onDamage: (damage: TonyError) => void): void {
  if ((error as { code?: unknown }).code !== 'DATA_INVALID') {
    throw error;
  }
  onDamage(error as TonyError);
}
