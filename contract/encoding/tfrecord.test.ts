import { readFile } from 'node:fs/promises';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { TonyError } from '../../platform/errors.ts';
import { maskedCrc32c } from './crc32c.ts';
import { encodeTfRecord, TfRecordParser, type TfRecordParserOptions } from './tfrecord.ts';

const golden = await readFile(new URL('./golden/examples.tfrecord', import.meta.url));

function parse(pieces: readonly Uint8Array[], options: Partial<TfRecordParserOptions> = {}): { records: Buffer[]; offset: number } {
  const end = pieces.reduce((sum, piece) => sum + piece.length, 0);
  const parser = new TfRecordParser({
    where: 'x',
    offset: 0,
    end,
    maxRecordBytes: 1e6,
    onDamage: (damage) => {
      throw damage;
    },
    ...options,
  });
  const records = pieces.flatMap((piece) => parser.push(Buffer.from(piece)));
  parser.finish();
  return { records, offset: parser.offset };
}

function cut(bytes: Uint8Array, places: readonly number[]): Uint8Array[] {
  const borders = [0, ...places.map((place) => place % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return borders.slice(1).map((to, index) => bytes.subarray(borders[index], to));
}

describe('TFRecord files', () => {
  test('TFRecord files are read as TensorFlow wrote them, and reproduced byte for byte', () => {
    const { records } = parse([golden]);
    expect(records).toHaveLength(5);
    expect(Buffer.concat(records.map(encodeTfRecord)).equals(golden)).toBe(true);
  });

  test('TFRecord files yield the same records however they are divided into chunks', () => {
    fc.assert(
      fc.property(
        fc.array(fc.uint8Array({ maxLength: 200 }), { maxLength: 20 }),
        fc.array(fc.nat(), { maxLength: 30 }),
        (records, places) => {
          const file = Buffer.concat(records.map(encodeTfRecord));
          const { records: read, offset } = parse(cut(file, places));
          expect(read.map((record) => [...record])).toEqual(records.map((record) => [...record]));
          expect(offset).toBe(file.length);
        },
      ),
    );
  });

  test('TFRecord files cause an error with the position of a flipped bit or, if damage is skipped, lose only the damaged records', () => {
    fc.assert(
      fc.property(fc.nat(golden.length * 8 - 1), fc.array(fc.nat(), { maxLength: 5 }), (bit, places) => {
        const damaged = Buffer.from(golden);
        damaged[bit >> 3] = (damaged[bit >> 3] as number) ^ (1 << (bit & 7));
        expect(() => parse(cut(damaged, places))).toThrow(/^x, byte \d+: /);
        const found: TonyError[] = [];
        const { records } = parse(cut(damaged, places), { onDamage: (damage) => found.push(damage) });
        expect(found.map(({ code }) => code)).toEqual(['DATA_INVALID']);
        const intact = parse([golden]).records;
        for (const record of records) {
          expect(intact.some((other) => other.equals(record))).toBe(true);
        }
        const isData = bit >> 3 >= 12 && bit >> 3 < 12 + (intact[0] as Buffer).length;
        if (isData) {
          expect(records).toHaveLength(4);
        }
      }),
    );
  });

  test('TFRecord files are rejected if they end within a record', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: golden.length - 1 }), (length) => {
        const lengths = parse([golden]).records.map((record) => record.length + 16);
        const borders = lengths.map((_, index) => lengths.slice(0, index + 1).reduce((sum, each) => sum + each, 0));
        const read = () => parse([golden.subarray(0, length)], { end: Number.POSITIVE_INFINITY });
        if (borders.includes(length)) {
          expect(read().offset).toBe(length);
        } else {
          expect(read).toThrow(/ends within a record/);
        }
      }),
    );
  });

  test('TFRecord files are rejected if they claim an excessive record length', () => {
    const header = encodeTfRecord(new Uint8Array(0));
    const lie = (length: number) => {
      const record = Buffer.from(header);
      record.writeUInt32LE(length % 2 ** 32, 0);
      record.writeUInt32LE(Math.floor(length / 2 ** 32), 4);
      return record;
    };
    const whole = encodeTfRecord(new Uint8Array(2000));
    expect(() => parse([whole.subarray(0, 20)])).toThrow('a record of 2000 bytes extends beyond the end of the file');
    expect(() => parse([whole.subarray(0, 20)], { end: Number.POSITIVE_INFINITY, maxRecordBytes: 1000 })).toThrow(/maxRecordBytes/);
    expect(() => parse([lie(2 ** 60)])).toThrow(/not a TFRecord file/);
  });

  test('TFRecord files yield all records that do not exceed the maximum length, however they are divided into chunks', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(300), { maxLength: 12 }), fc.array(fc.nat(), { maxLength: 30 }), (lengths, places) => {
        const records = lengths.map((length, index) => Buffer.alloc(length, index));
        const found: string[] = [];
        const file = Buffer.concat(records.map(encodeTfRecord));
        const { records: read, offset } = parse(cut(file, places), { maxRecordBytes: 150, onDamage: (_, kind) => found.push(kind) });
        expect(read.map((record) => [...record])).toEqual(records.filter(({ length }) => length <= 150).map((record) => [...record]));
        expect(found).toEqual(lengths.filter((length) => length > 150).map(() => 'long'));
        expect(offset).toBe(file.length);
      }),
    );
  });

  test('TFRecord files yield their complete records while they are still growing', () => {
    const record = encodeTfRecord(Buffer.from('some data'));
    const onDamage = (damage: TonyError) => {
      throw damage;
    };
    const parser = new TfRecordParser({ where: 'x', offset: 0, end: Number.POSITIVE_INFINITY, maxRecordBytes: 100, onDamage });
    expect(parser.push(Buffer.concat([record, record.subarray(0, 20)]))).toHaveLength(1);
    expect(parser).toMatchObject({ isWithinRecord: true, offset: record.length, taken: record.length + 20 });
    expect(parser.push(record.subarray(20)).map(String)).toEqual(['some data']);
    expect(parser).toMatchObject({ isWithinRecord: false, offset: 2 * record.length, taken: 2 * record.length });
  });

  test('TFRecord files yield no records after an impossible record length', () => {
    const head = Buffer.alloc(12);
    head.writeBigUInt64LE(2n ** 63n);
    head.writeUInt32LE(maskedCrc32c(head.subarray(0, 8)), 8);
    const found: string[] = [];
    const options = { end: Number.POSITIVE_INFINITY, onDamage: (_: TonyError, kind: string) => found.push(kind) };
    expect(parse([head, encodeTfRecord(Buffer.from('a'))], options).records).toEqual([]);
    expect(found).toEqual(['rest']);
  });
});
