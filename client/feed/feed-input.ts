import { TfRecordParser } from '../../contract/encoding/tfrecord.ts';
import { TonyError } from '../../platform/errors.ts';
import { MAXIMUM_RECORD_BYTES } from '../../protos/feed-protocol.ts';

const NEWLINE = 0x0a;

/**
 * Splits the input into lines or TFRecord records. Lines do not include their line feeds.
 * @throws TonyError DATA_INVALID if a record is damaged or too long
 */
export function recordsOf(input: AsyncIterable<Buffer>, format: 'lines' | 'tfrecord'): AsyncGenerator<Buffer, void> {
  return format === 'lines' ? linesOf(input) : tfRecordsOf(input);
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
