import { readFileSync } from 'node:fs';
import path from 'node:path';
import { Readable } from 'node:stream';
import { deflateSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { indexAggregatedLog, readAggregatedFile } from './aggregated-log.ts';
import { ByteCursor } from './byte-cursor.ts';
import { type RangeSource, readVLong } from './tfile.ts';

/** Splits the bytes into chunks of irregular sizes, as a network does. */
const sourceOf = (bytes: Buffer, piece = 1000): RangeSource => ({
  size: bytes.length,
  stream: async (offset, length) => {
    const part = bytes.subarray(offset, offset + length);
    return Readable.from(
      Array.from({ length: Math.ceil(part.length / piece) }, (_, index) => part.subarray(index * piece, (index + 1) * piece)),
    );
  },
});
const golden = (name: string): Buffer => readFileSync(path.join(import.meta.dirname, '..', 'golden', name));

describe('reading a file that a NodeManager wrote', () => {
  test.each([
    ['aggregated-log-none.tfile', '0003', 100],
    ['aggregated-log-gz.tfile', '0004', 2_500_000],
  ])('%s', async (name, application, fill) => {
    const source = sourceOf(golden(name));
    const files = await indexAggregatedLog(source);
    const ids = ['02', '01'].map((attempt) => `container_1795236426747_${application}_${attempt}_000001`);
    const expected = [
      ['prelaunch.err', 0],
      ['prelaunch.out', 70],
      ['stderr', 0],
      ['stdout', 61],
      ['tony.log', fill + 20],
    ];
    expect(files.map(({ containerId, name: file, size }) => [containerId, file, size])).toEqual(
      ids.flatMap((id) => expected.map((entry) => [id, ...entry])),
    );
    for (const [index, id] of ids.entries()) {
      const [, , , stdout, log] = files.slice(index * expected.length);
      if (stdout === undefined || log === undefined) {
        throw new Error('the files above');
      }
      const whole = await readAggregatedFile(source, stdout, 0, stdout.size);
      expect(whole).toEqual(Buffer.concat([Buffer.from(`attempt ${id}\n1\n2\n3\n4\n5\n`), Buffer.from([0, 0xff, 0xc3, 0xa9])]));
      expect((await readAggregatedFile(source, log, 0, 13)).toString()).toBe('first line\nxx');
      expect((await readAggregatedFile(source, log, log.size - 11, 100)).toString()).toBe('xxlast line');
      expect((await readAggregatedFile(source, log, 1, log.size)).length).toBe(log.size - 1);
      expect(await readAggregatedFile(source, log, log.size, 10)).toEqual(Buffer.alloc(0));
    }
  });
});

function vlong(value: number): Buffer {
  if (value >= -32 && value < 128) {
    return Buffer.from([value & 0xff]);
  }
  const magnitude = value < 0 ? -value - 1 : value;
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64BE(BigInt(value));
  const tail = (length: number): Buffer => bytes.subarray(8 - length);
  if (magnitude < 20 * 2 ** 8) {
    return Buffer.from([Math.floor(value / 2 ** 8) - 52, ...tail(1)]);
  }
  if (magnitude < 16 * 2 ** 16) {
    return Buffer.from([Math.floor(value / 2 ** 16) - 88, ...tail(2)]);
  }
  if (magnitude < 8 * 2 ** 24) {
    return Buffer.from([Math.floor(value / 2 ** 24) - 112, ...tail(3)]);
  }
  const length = [4, 5, 6, 7, 8].find((size) => magnitude < 2 ** (8 * size - 1)) ?? 8;
  return Buffer.from([length - 129, ...tail(length)]);
}

const text = (value: string): Buffer => Buffer.concat([vlong(Buffer.byteLength(value)), Buffer.from(value)]);
const utf = (value: string): Buffer => {
  const length = Buffer.alloc(2);
  length.writeUInt16BE(Buffer.byteLength(value));
  return Buffer.concat([length, Buffer.from(value)]);
};
type Container = { id: string; files: { name: string; bytes: Uint8Array }[] };

function writeTFile(blocks: Container[][], compression: 'none' | 'gz', chunk: number, times = 1): Buffer {
  const magic = golden('aggregated-log-none.tfile').subarray(0, 16);
  const pack = (raw: Buffer): Buffer => (compression === 'gz' ? deflateSync(raw) : raw);
  const parts: Buffer[] = [magic];
  let at = magic.length;
  const append = (raw: Buffer): Buffer => {
    const packed = pack(raw);
    parts.push(packed);
    const region = Buffer.concat([vlong(at), vlong(packed.length), vlong(raw.length)]);
    at += packed.length;
    return region;
  };
  const chunked = (value: Buffer): Buffer => {
    const chunks: Buffer[] = [];
    let from = 0;
    for (; value.length - from > chunk; from += chunk) {
      chunks.push(vlong(-chunk), value.subarray(from, from + chunk));
    }
    return Buffer.concat([...chunks, vlong(value.length - from), value.subarray(from)]);
  };
  const record = (key: string, value: Buffer): Buffer => Buffer.concat([vlong(utf(key).length), utf(key), chunked(value)]);
  const regions = blocks.map((containers, index) => {
    const values = containers.map(({ id, files }) =>
      record(id, Buffer.concat(files.flatMap(({ name, bytes }) => [utf(name), utf(String(bytes.length)), Buffer.from(bytes)]))),
    );
    return append(Buffer.concat([...(index === 0 ? [record('VERSION', Buffer.from([0, 0, 0, 1]))] : []), ...values]));
  });
  const index = append(
    Buffer.concat([
      text(compression),
      vlong(regions.length * times),
      ...regions.flatMap((region) => Array.from({ length: times }, () => region)),
    ]),
  );
  const end = Buffer.alloc(12);
  end.writeBigInt64BE(BigInt(at));
  end.writeInt16BE(1, 8);
  const meta = Buffer.concat([
    vlong(2),
    text('data:other'),
    text('none'),
    vlong(0),
    vlong(0),
    vlong(0),
    text('data:BCFile.index'),
    text(compression),
    index,
  ]);
  return Buffer.concat([...parts, meta, end, magic]);
}

test('stops reading a log that has more parts than a NodeManager writes', async () => {
  const id = 'container_1_0001_01_000001';
  const file = (name: string, size: number) => ({ name, bytes: Buffer.alloc(size) });
  const chunks = sourceOf(writeTFile([[{ id, files: [file('f', 500)] }]], 'gz', 1));
  expect(await indexAggregatedLog(chunks, 501)).toHaveLength(1);
  await expect(indexAggregatedLog(chunks, 500)).rejects.toThrow('more files and chunks');
  const records = Array.from({ length: 10 }, (_, at) => ({ id: `${id}${at}`, files: Array.from({ length: 20 }, () => file('', 0)) }));
  const files = sourceOf(writeTFile([records], 'none', 1 << 20));
  expect(await indexAggregatedLog(files, 200)).toHaveLength(200);
  await expect(indexAggregatedLog(files, 199)).rejects.toThrow('more files and chunks');
  const long = sourceOf(writeTFile([[{ id, files: [file('n'.repeat(1_025), 0)] }]], 'none', 1 << 20));
  await expect(indexAggregatedLog(long)).rejects.toThrow('1025 characters');
});

test('rejects a log with overlapping blocks before reading the blocks', async () => {
  const source = sourceOf(
    writeTFile([[{ id: 'application', files: [{ name: 'f', bytes: Buffer.alloc(100_000) }] }]], 'gz', 1 << 20, 1_000),
  );
  let bytes = 0;
  const counted: RangeSource = {
    size: source.size,
    stream: (offset, length) => {
      bytes += length;
      return source.stream(offset, length);
    },
  };
  await expect(indexAggregatedLog(counted)).rejects.toThrow('overlaps the previous block');
  expect(bytes).toBeLessThan(2 * source.size);
});

test('reads VLongs of all lengths', async () => {
  const edges = [
    0,
    -32,
    -33,
    127,
    128,
    5119,
    5120,
    -5120,
    -5121,
    2 ** 20 - 1,
    2 ** 20,
    -(2 ** 20),
    2 ** 27 - 1,
    2 ** 27,
    -(2 ** 27),
    2 ** 31,
    2 ** 39,
    Number.MAX_SAFE_INTEGER,
    Number.MIN_SAFE_INTEGER,
  ];
  for (const value of edges) {
    expect(await readVLong(new ByteCursor(Readable.from([vlong(value)])))).toBe(value);
  }
  await fc.assert(
    fc.asyncProperty(
      fc.maxSafeInteger(),
      async (value) => void expect(await readVLong(new ByteCursor(Readable.from([vlong(value)])))).toBe(value),
    ),
  );
});

test('finds every file and its content, for any chunks, blocks and compression', async () => {
  const name = fc.stringMatching(/^[a-zé._-]{1,12}$/);
  const file = fc.record({ name, bytes: fc.uint8Array({ maxLength: 300 }) });
  const container = fc.record({ id: fc.nat(99_999).map((id) => `container_1_0001_01_${id}`), files: fc.array(file, { maxLength: 4 }) });
  const blocks = fc.array(fc.array(container, { maxLength: 3 }), { minLength: 1, maxLength: 3 });
  await fc.assert(
    fc.asyncProperty(
      blocks,
      fc.constantFrom('none' as const, 'gz' as const),
      fc.integer({ min: 1, max: 200 }),
      fc.integer({ min: 1, max: 50 }),
      fc.nat(320),
      fc.nat(320),
      async (written, compression, chunk, piece, offset, length) => {
        const source = sourceOf(writeTFile(written, compression, chunk), piece);
        const found = await indexAggregatedLog(source);
        const wanted = written.flat().flatMap(({ id, files }) => files.map((entry) => ({ id, ...entry })));
        expect(found.map(({ containerId, name: file, size }) => [containerId, file, size])).toEqual(
          wanted.map(({ id, name: file, bytes }) => [id, file, bytes.length]),
        );
        for (const [index, entry] of found.entries()) {
          const bytes = Buffer.from(wanted[index]?.bytes ?? []);
          expect(await readAggregatedFile(source, entry, 0, bytes.length)).toEqual(bytes);
          expect(await readAggregatedFile(source, entry, offset, length)).toEqual(bytes.subarray(offset, offset + length));
        }
      },
    ),
    { numRuns: 60 },
  );
});

test('rejects damaged logs without allocating the sizes that they declare', async () => {
  const whole = golden('aggregated-log-none.tfile');
  for (const cut of [0, 10, 44, 500, 993]) {
    await expect(indexAggregatedLog(sourceOf(whole.subarray(0, cut)))).rejects.toThrow(/TFile/);
  }
  await fc.assert(
    fc.asyncProperty(fc.nat(whole.length - 1), fc.integer({ min: 1, max: 255 }), async (at, flip) => {
      const bad = Buffer.from(whole);
      bad[at] = (bad[at] ?? 0) ^ flip;
      await indexAggregatedLog(sourceOf(bad)).catch((error: unknown) => expect(error).toBeInstanceOf(RangeError));
    }),
    { numRuns: 300 },
  );
  const lzo = Buffer.from(whole.toString('latin1').replaceAll('\x04none', '\x04lzox'), 'latin1');
  await expect(indexAggregatedLog(sourceOf(lzo))).rejects.toThrow('compressed by "lzox"');
});
