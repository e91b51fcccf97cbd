import type { TonyError } from '../../../platform/errors.ts';
import { TfRecordParser } from '../../encoding/tfrecord.ts';
import type { FileFormat } from '../reading/split.ts';
import { type Compression, compressionOf, readContents } from './file-bytes.ts';

export interface RecordOptions {
  /** The files' compression; by default, determined by the file name (`.gz`, `.zlib`). */
  readonly compression?: Compression;
  /** Skips and counts damaged records instead of failing; false by default. */
  readonly skipDamaged?: boolean;
  /** The maximum record size in bytes, checked before memory is allocated; 256 MiB by default. */
  readonly maxRecordBytes?: number;
}

export const MAX_RECORD_BYTES = 256 * 1024 * 1024;

/** Creates the format of TFRecord files. Positions are record offsets in the uncompressed contents. */
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

/** Passes a DATA_INVALID error (a decompression failure) to `onDamage` and rethrows any other error. */
export function skipUnreadable(error: unknown, onDamage: (damage: TonyError) => void): void {
  if ((error as { code?: unknown }).code !== 'DATA_INVALID') {
    throw error;
  }
  onDamage(error as TonyError);
}
