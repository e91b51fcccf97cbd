import fc from 'fast-check';
import { expect, test } from 'vitest';
import { maskedCrc32c } from '../../training/crc32c.ts';
import { encodeScalars } from '../../training/event-file.ts';
import { MAXIMUM_RECORD_BYTES, RecordFile } from './record-file.ts';

function frame(data: Buffer): Buffer {
  const head = Buffer.alloc(12);
  head.writeBigUInt64LE(BigInt(data.length));
  head.writeUInt32LE(maskedCrc32c(head.subarray(0, 8)), 8);
  const foot = Buffer.alloc(4);
  foot.writeUInt32LE(maskedCrc32c(data));
  return Buffer.concat([head, data, foot]);
}

function readAll(file: RecordFile, pieces: readonly Buffer[]): string[] {
  return pieces.flatMap((piece) => [...file.take(piece)].map((data) => data.toString('hex')));
}

/** `bytes` cut at these places. */
function cutAt(bytes: Buffer, places: readonly number[]): Buffer[] {
  const cuts = [0, ...places.map((place) => place % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return cuts.slice(1).map((end, at) => Buffer.from(bytes.subarray(cuts[at], end)));
}

const contents = fc.array(fc.uint8Array({ maxLength: 60 }).map(Buffer.from), { maxLength: 10 });

test('records come whole, wherever the pieces are cut', () => {
  fc.assert(
    fc.property(contents, fc.array(fc.nat(), { maxLength: 12 }), (records, places) => {
      const bytes = Buffer.concat(records.map(frame));
      const file = new RecordFile();
      expect(readAll(file, cutAt(bytes, places))).toEqual(records.map((record) => record.toString('hex')));
      expect(file).toMatchObject({ offset: bytes.length, isCut: false, isBroken: false, damaged: 0, tooLong: 0 });
    }),
  );
});

test('a record that is not there yet is waited for', () => {
  const record = encodeScalars(1, 2, [{ tag: 'a', value: 3 }]);
  const file = new RecordFile();
  expect(readAll(file, [record, record.subarray(0, 20)])).toHaveLength(1);
  expect(file.isCut).toBe(true);
  expect(readAll(file, [record.subarray(20)])).toHaveLength(1);
  expect(file.isCut).toBe(false);
});

test('whatever is damaged, no record is taken for right that is not, and those before it are read', () => {
  fc.assert(
    fc.property(
      contents,
      fc.nat(),
      fc.integer({ min: 1, max: 255 }),
      fc.array(fc.nat(), { maxLength: 5 }),
      (records, place, flip, cuts) => {
        const bytes = Buffer.concat(records.map(frame));
        fc.pre(bytes.length > 0);
        const at = place % bytes.length;
        bytes[at] = (bytes[at] as number) ^ flip;
        const file = new RecordFile();
        const read = readAll(file, cutAt(bytes, cuts));
        const whole = records.map((record) => record.toString('hex'));
        expect(file.damaged === 1 || file.isBroken).toBe(true);
        expect(read.every((record, index) => whole[index] === record || whole[index + 1] === record)).toBe(true);
        if (!file.isBroken) expect(read).toHaveLength(records.length - 1);
      },
    ),
  );
});

test('a long record is passed over and not held', () => {
  const long = frame(Buffer.alloc(MAXIMUM_RECORD_BYTES + 1, 7));
  const file = new RecordFile();
  const bytes = Buffer.concat([frame(Buffer.from('a')), long, frame(Buffer.from('b'))]);
  const pieces = Array.from({ length: Math.ceil(bytes.length / 65_536) }, (_, at) => bytes.subarray(at * 65_536, (at + 1) * 65_536));
  expect(readAll(file, pieces)).toEqual(['61', '62']);
  expect(file).toMatchObject({ tooLong: 1, damaged: 0, isCut: false });
});

test('a length that nobody can mean breaks the file', () => {
  const head = Buffer.alloc(12);
  head.writeBigUInt64LE(2n ** 63n);
  head.writeUInt32LE(maskedCrc32c(head.subarray(0, 8)), 8);
  const file = new RecordFile();
  expect(readAll(file, [head, frame(Buffer.from('a'))])).toEqual([]);
  expect(file.isBroken).toBe(true);
});
