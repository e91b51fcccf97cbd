import { TfRecordParser } from '../../contract/encoding/tfrecord.ts';
import { TonyError } from '../../platform/errors.ts';
import { MAXIMUM_RECORD_BYTES } from '../../protos/feed-protocol.ts';
import type { FeedFormat } from './feed-name.ts';

const NEWLINE = 0x0a;

/** The length after the last frame. */
const END_OF_FRAMES = 0xffffffff;
const LENGTH_BYTES = 4;

const READERS: Readonly<Record<FeedFormat, (input: AsyncIterable<Buffer>) => AsyncGenerator<Buffer, void>>> = {
  lines: linesOf,
  tfrecord: tfRecordsOf,
  frames: framesOf,
};

/**
 * Splits the input into records. Lines do not include their line feeds.
 * @throws TonyError DATA_INVALID if a record is damaged or too long, and if frames end without their end
 */
export function recordsOf(input: AsyncIterable<Buffer>, format: FeedFormat): AsyncGenerator<Buffer, void> {
  return READERS[format](input);
}

async function* framesOf(input: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void> {
  let pieces: Buffer[] = [];
  let length = 0;
  let needed = LENGTH_BYTES;
  for await (const bytes of input) {
    pieces.push(bytes);
    length += bytes.length;
    if (length < needed) {
      continue;
    }
    const all = pieces.length === 1 ? bytes : Buffer.concat(pieces, length);
    let at = 0;
    while (all.length - at >= LENGTH_BYTES) {
      const size = all.readUInt32BE(at);
      if (size === END_OF_FRAMES) {
        return;
      }
      if (size > MAXIMUM_RECORD_BYTES) {
        throw new TonyError('DATA_INVALID', `a record has ${size} bytes, but at most ${MAXIMUM_RECORD_BYTES} are possible`);
      }
      if (all.length - at < LENGTH_BYTES + size) {
        break;
      }
      yield all.subarray(at + LENGTH_BYTES, at + LENGTH_BYTES + size);
      at += LENGTH_BYTES + size;
    }
    const rest = all.subarray(at);
    pieces = [rest];
    length = rest.length;
    needed = LENGTH_BYTES + (length < LENGTH_BYTES ? 0 : rest.readUInt32BE(0));
  }
  throw new TonyError('DATA_INVALID', 'the records ended without their end, so the feed does not end', {
    hint: 'The program that writes the records has exited early. Start it again with the name of this producer.',
  });
}

async function* linesOf(input: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void> {
  let begun: Buffer[] = [];
  let length = 0;
  for await (const bytes of input) {
    let from = 0;
    for (let to = bytes.indexOf(NEWLINE); to >= 0; to = bytes.indexOf(NEWLINE, from)) {
      const rest = bytes.subarray(from, to);
      yield begun.length === 0 ? rest : Buffer.concat([...begun, rest]);
      begun = [];
      length = 0;
      from = to + 1;
    }
    if (from === bytes.length) {
      continue;
    }
    begun.push(bytes.subarray(from));
    length += bytes.length - from;
    if (length > MAXIMUM_RECORD_BYTES) {
      throw new TonyError('DATA_INVALID', `a line has more than ${MAXIMUM_RECORD_BYTES} bytes`, {
        hint: 'Check that the input is text. For binary records, use --format tfrecord.',
      });
    }
  }
  if (length > 0) {
    yield Buffer.concat(begun);
  }
}

async function* tfRecordsOf(input: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void> {
  const parser = new TfRecordParser({
    where: 'standard input',
    offset: 0,
    end: Number.POSITIVE_INFINITY,
    maxRecordBytes: MAXIMUM_RECORD_BYTES,
    onDamage: (damage) => {
      throw damage;
    },
  });
  for await (const bytes of input) {
    yield* parser.push(bytes);
  }
  parser.finish();
}
