import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeTfRecord } from '../../contract/encoding/tfrecord.ts';
import { recordsOf } from './feed-input.ts';
import type { FeedFormat } from './feed-name.ts';
import { describeProgress } from './feed-progress.ts';

async function* inPieces(bytes: Buffer, cuts: readonly number[]): AsyncGenerator<Buffer> {
  let from = 0;
  for (const cut of [...cuts.map((each) => each % (bytes.length + 1)).sort((a, b) => a - b), bytes.length]) {
    if (cut > from) {
      yield bytes.subarray(from, cut);
    }
    from = Math.max(from, cut);
  }
}

async function read(bytes: Buffer, cuts: readonly number[], format: FeedFormat): Promise<string[]> {
  const records: string[] = [];
  for await (const record of recordsOf(inPieces(bytes, cuts), format)) {
    records.push(record.toString());
  }
  return records;
}

describe('records from standard input', () => {
  const texts = fc.array(fc.string().map((text) => text.replaceAll('\n', ' ')));
  const cuts = fc.array(fc.nat(), { maxLength: 8 });

  it('are lines, however the input is split into chunks', async () => {
    await fc.assert(
      fc.asyncProperty(texts, cuts, fc.boolean(), async (lines, at, isOpen) => {
        const text = isOpen ? lines.join('\n') : lines.map((line) => `${line}\n`).join('');
        const expected = isOpen && (lines.at(-1) ?? '') === '' ? lines.slice(0, -1) : lines;
        expect(await read(Buffer.from(text), at, 'lines')).toEqual(expected);
      }),
    );
  });

  it('are frames, however the input is split into chunks, and do not end without their end', async () => {
    const frame = (record: Buffer): Buffer => {
      const length = Buffer.alloc(4);
      length.writeUInt32BE(record.length);
      return Buffer.concat([length, record]);
    };
    const end = Buffer.alloc(4, 0xff);
    await fc.assert(
      fc.asyncProperty(texts, cuts, async (records, at) => {
        const frames = Buffer.concat(records.map((record) => frame(Buffer.from(record))));
        expect(await read(Buffer.concat([frames, end]), at, 'frames')).toEqual(records);
        await expect(read(frames, at, 'frames')).rejects.toMatchObject({ code: 'DATA_INVALID' });
      }),
    );
    await expect(read(frame(Buffer.alloc(20 * 1024 * 1024)), [], 'frames')).rejects.toThrow(/at most/);
  });

  it('are TFRecords if the format is tfrecord; damaged, truncated and oversized input is rejected', async () => {
    await fc.assert(
      fc.asyncProperty(texts, cuts, async (lines, at) => {
        const bytes = Buffer.concat(lines.map((line) => encodeTfRecord(Buffer.from(line))));
        expect(await read(bytes, at, 'tfrecord')).toEqual(lines);
      }),
    );
    await expect(read(Buffer.from('no TFRecord at all'), [], 'tfrecord')).rejects.toThrow(/not a TFRecord file/);
    await expect(read(encodeTfRecord(Buffer.from('abc')).subarray(0, 17), [], 'tfrecord')).rejects.toThrow(/ends within a record/);
    await expect(read(Buffer.alloc(17 * 1024 * 1024), [], 'lines')).rejects.toThrow(/more than/);
  });
});

it('describeProgress states the state and the counts of a feed', () => {
  const progress = { written: 5, taken: 3, receivedBefore: 0, readers: 1, reason: '', state: 'connected' } as const;
  expect(describeProgress(progress)).toBe('feeding 1 worker: 5 records written, 3 received');
  expect(describeProgress({ ...progress, state: 'full' })).toBe(
    'the job accepts no more records at the moment: 5 records written, 3 received',
  );
  expect(describeProgress({ ...progress, state: 'waiting', reason: 'no task reads it' })).toMatch(/^waiting: no task reads it \(/);
});
