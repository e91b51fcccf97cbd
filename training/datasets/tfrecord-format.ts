import type { TonyError } from '../../conf/errors.ts';
import { TfRecordParser } from '../tfrecord.ts';
import { type Compression, compressionOf, readContents } from './file-bytes.ts';
import type { FileFormat } from './file-source.ts';

export interface RecordOptions {
  /** How the files are compressed; by their names (`.gz`, `.zlib`) unless told. */
  readonly compression?: Compression;
  /** Damaged records are left out and counted instead of ending the reading; false unless told. */
  readonly skipDamaged?: boolean;
  /** Checked before memory is taken; 256 MiB unless told. */
  readonly maxRecordBytes?: number;
}

export const MAX_RECORD_BYTES = 256 * 1024 * 1024;

/** Places are offsets of records, in what compressed files unpack to. */
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
          if (items.length > 0) yield { items, from: place, bytes: bytes.length };
          if (parser.isLost) return;
        }
      } catch (error) {
        skipUnreadable(error, onDamage);
      }
      parser.finish();
    },
  };
}

/** Throws, or has the damage counted. */
export function damageHandler(options: RecordOptions, onSkip: (damage: TonyError) => void): (damage: TonyError) => void {
  return (damage) => {
    if (options.skipDamaged !== true) throw damage;
    onSkip(damage);
  };
}

/** What cannot be unpacked is damage like any other. */
export function skipUnreadable(error: unknown, onDamage: (damage: TonyError) => void): void {
  if ((error as { code?: unknown }).code !== 'DATA_INVALID') throw error;
  onDamage(error as TonyError);
}
