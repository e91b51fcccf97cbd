import { messageOf, TonyError } from '../../../platform/errors.ts';
import type { DataFile } from '../reading/file-set.ts';
import type { ReadContext } from '../reading/read-context.ts';
import type { FileFormat, Split } from '../reading/split.ts';
import { compressionOf, readContents } from './file-bytes.ts';
import { type Line, LineSplitter } from './line-splitter.ts';
import { damageHandler, MAX_RECORD_BYTES, type RecordOptions, skipUnreadable } from './tfrecord-format.ts';

export interface LineRecordOptions extends RecordOptions {
  /** True if quoted values may contain line breaks. Such files cannot be split. */
  readonly isQuoted?: boolean;
  readonly isSplittable?: boolean;
}

/**
 * Parses the line that begins at byte `offset`. Returns undefined if the line contains no record, for example because it is empty. Throws
 * if the line is damaged.
 */
export type LineParser<T> = (line: string, offset: number) => T | undefined;

/**
 * Creates the format for files with one record per line. As is usual in Hadoop, a line belongs to the split that contains its first byte. A
 * reader starts one byte before its split and skips everything up to the first line break. Positions are line offsets.
 * @param parserFor creates the parser for a file's lines.
 */
export function lineFormat<T>(
  options: LineRecordOptions,
  parserFor: (file: DataFile, context: ReadContext) => Promise<LineParser<T>>,
): FileFormat<T> {
  return {
    isSplittable: (file) => (options.isSplittable ?? true) && compressionOf(file, options.compression ?? 'auto') === 'none',
    async *read(split, from, context) {
      const { file } = split;
      const onDamage = damageHandler(options, context.onDamage);
      const parse = await parserFor(file, context);
      try {
        for await (const { lines, bytes } of linesOf(split, from as number | null, options, context)) {
          const items: T[] = [];
          for (const line of lines) {
            const item = parsed(parse, line, file, onDamage);
            if (item !== undefined) {
              items.push(item);
            }
          }
          if (items.length > 0) {
            yield { items, from: (lines[0] as Line).offset, bytes };
          }
        }
      } catch (error) {
        skipUnreadable(error, onDamage);
      }
    },
  };
}

function parsed<T>(parse: LineParser<T>, { bytes, offset }: Line, file: DataFile, onDamage: (damage: TonyError) => void): T | undefined {
  try {
    const hasByteOrderMark = offset === 0 && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
    return parse(bytes.toString('utf8', hasByteOrderMark ? 3 : 0), offset);
  } catch (error) {
    onDamage(new TonyError('DATA_INVALID', `${file.uri}, byte ${offset}: ${messageOf(error)}`, { cause: error }));
    return undefined;
  }
}

async function* linesOf(
  { file, from: start, to }: Split,
  resumeAt: number | null,
  options: LineRecordOptions,
  context: ReadContext,
): AsyncGenerator<{ readonly lines: readonly Line[]; readonly bytes: number }, void> {
  const compression = compressionOf(file, options.compression ?? 'auto');
  // A compressed file has only one split, whose `to` is the compressed size.
  const end = compression === 'none' ? to : Number.POSITIVE_INFINITY;
  let isAligned = resumeAt !== null || start === 0;
  const offset = resumeAt ?? Math.max(0, start - 1);
  if (offset >= end) {
    return;
  }
  const maxRecordBytes = options.maxRecordBytes ?? MAX_RECORD_BYTES;
  const splitter = new LineSplitter({ where: file.uri, offset, maxRecordBytes, isQuoted: options.isQuoted ?? false });
  for await (const bytes of readContents(file, compression, offset, context)) {
    let lines = splitter.push(bytes);
    if (!isAligned && lines.length > 0) {
      // The first line belongs to the previous split.
      lines = lines.slice(1);
      isAligned = true;
    }
    const isLast = splitter.offset >= end;
    const own = isLast ? lines.filter((line) => line.offset < end) : lines;
    if (own.length > 0) {
      yield { lines: own, bytes: bytes.length };
    }
    if (isLast) {
      return;
    }
  }
  const rest = splitter.finish();
  if (isAligned && rest.length > 0) {
    yield { lines: rest, bytes: (rest[0] as Line).bytes.length };
  }
}
