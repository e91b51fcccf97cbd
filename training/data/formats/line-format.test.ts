import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { FileStorage } from '../../../storage/file-storage.ts';
import { csv, jsonl, lines } from '../sources/sources.ts';
import { folderWith } from '../testing/files.ts';
import { splitFields } from './csv.ts';
import { LineSplitter } from './line-splitter.ts';

const storage = new FileStorage();

describe('lines', () => {
  test('lines are the same however the file is divided into chunks', () => {
    const line = fc.string({ unit: fc.constantFrom('a', 'ü', ',', '\r'), maxLength: 8 }).filter((text) => !text.endsWith('\r'));
    fc.assert(
      fc.property(
        fc.array(line),
        fc.constantFrom('\n', '\r\n'),
        fc.boolean(),
        fc.array(fc.nat(20), { minLength: 1 }),
        (texts, end, hasEnd, sizes) => {
          const isLastSeen = hasEnd || texts.at(-1) !== '';
          const file = Buffer.from(texts.join(end) + (hasEnd && texts.length > 0 ? end : ''));
          const splitter = new LineSplitter({ where: 'x', offset: 0, maxRecordBytes: 1000, isQuoted: false });
          const found: string[] = [];
          for (let at = 0, turn = 0; at < file.length; turn++) {
            const size = 1 + (sizes[turn % sizes.length] as number);
            for (const { bytes, offset } of splitter.push(file.subarray(at, at + size))) {
              expect(file.subarray(offset, offset + bytes.length).equals(bytes)).toBe(true);
              found.push(bytes.toString());
            }
            at += size;
          }
          found.push(...splitter.finish().map(({ bytes }) => bytes.toString()));
          expect(found).toEqual(isLastSeen ? texts : texts.slice(0, -1));
        },
      ),
    );
  });

  test('lines belong to exactly one split each, wherever the file is split', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.string({ unit: fc.constantFrom('a', 'b', 'ü'), maxLength: 12 }), { minLength: 1, maxLength: 30 }),
        fc.integer({ min: 1, max: 40 }),
        fc.integer({ min: 1, max: 5 }),
        async (texts, splitBytes, ranks) => {
          const folder = await folderWith({ 'a.txt': `${texts.join('\n')}\n` });
          const shares = Array.from({ length: ranks }, (_, index) =>
            lines(`${folder}/*`, { splitBytes }).toArray({ storage, share: { index, count: ranks } }),
          );
          expect((await Promise.all(shares)).flat().sort()).toEqual([...texts].sort());
        },
      ),
      { numRuns: 60 },
    );
  });

  test('lines cause an error with their position if they exceed the maximum length', async () => {
    const folder = await folderWith({ 'a.txt': `a\n${'b'.repeat(5000)}\nc\n` });
    await expect(lines(folder, { maxRecordBytes: 1000 }).toArray({ storage })).rejects.toThrow(
      /a.txt, byte 2: a line is longer than 1000 bytes/,
    );
  });

  test('lines are all read by the same reader if the file is compressed', async () => {
    const text = Array.from({ length: 1000 }, (_, index) => `line ${index}`);
    const folder = await folderWith({ 'a.gz': gzipSync(text.join('\n')) });
    expect(await lines(folder, { splitBytes: 10 }).toArray({ storage })).toEqual(text);
    const broken = await folderWith({ 'a.gz': gzipSync(text.join('\n')).subarray(0, 1000) });
    await expect(lines(broken).toArray({ storage })).rejects.toThrow(/a.gz cannot be decompressed beyond byte \d+/);
    const reader = lines(broken, { skipDamaged: true }).read({ storage });
    let count = 0;
    for await (const line of reader) {
      expect(line).toBe(text[count++]);
    }
    expect(reader.skippedRecords).toBe(1);
  });
});

describe('JSON lines', () => {
  test('JSON lines are parsed; a damaged line causes an error with its position, or is skipped and counted', async () => {
    const folder = await folderWith({ 'a.jsonl': '{"a":1}\n\n[2]\n{"a":\nnull\n' });
    await expect(jsonl(folder).toArray({ storage })).rejects.toMatchObject({
      code: 'DATA_INVALID',
      message: expect.stringMatching(/a\.jsonl, byte 13: .*JSON/),
    });
    const damages: string[] = [];
    const values = await jsonl(folder, { skipDamaged: true }).toArray({ storage, onDamage: ({ message }) => damages.push(message) });
    expect(values).toEqual([{ a: 1 }, [2], null]);
    expect(damages).toHaveLength(1);
  });
});

describe('CSV', () => {
  test('supports quoted values with delimiters, quotes and line breaks', async () => {
    const folder = await folderWith({ 'a.csv': '\ufeffname, size ,note\r\n"A, ""B""",1.5,"two\r\nlines"\r\nplain,-2e3,\r\n' });
    expect(await csv(folder).toArray({ storage })).toEqual([
      { name: 'A, "B"', size: 1.5, note: 'two\r\nlines' },
      { name: 'plain', size: -2000, note: undefined },
    ]);
  });

  test('reads any quoted values back unchanged', async () => {
    const value = fc.string({ unit: fc.constantFrom('a', '"', ',', '\n', '\r', ' ', 'ü') });
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(value, { minLength: 2, maxLength: 2 }), { minLength: 1 }), async (rows) => {
        const text = rows.map((row) => row.map((each) => `"${each.replaceAll('"', '""')}"`).join(',')).join('\n');
        const folder = await folderWith({ 'a.csv': text });
        const columnConfigs = { a: { dtype: 'string', default: '' }, b: { dtype: 'string', default: '' } } as const;
        const read = await csv(folder, { hasHeader: false, columnNames: ['a', 'b'], columnConfigs }).toArray({ storage });
        expect(read).toEqual(rows.map(([a, b]) => ({ a, b })));
      }),
      { numRuns: 50 },
    );
  });

  test('supports types, defaults, labels and missing values', async () => {
    const folder = await folderWith({ 'a.tsv': 'x\ty\tok\tlabel\n1\tNA\ttrue\t3\n\t7\t0\t4\n' });
    const rows = csv(folder, {
      delimiter: '\t',
      missingValues: ['NA'],
      columnConfigs: {
        x: { dtype: 'float32', default: -1 },
        ok: { dtype: 'bool' },
        label: { dtype: 'int32', required: true, isLabel: true },
      },
    });
    expect(await rows.toArray({ storage })).toEqual([
      { xs: { x: 1, y: undefined, ok: true }, ys: { label: 3 } },
      { xs: { x: -1, y: 7, ok: false }, ys: { label: 4 } },
    ]);
    expect(await csv(folder, { delimiter: '\t', columnConfigs: { y: {} }, configuredColumnsOnly: true }).toArray({ storage })).toEqual([
      { y: 'NA' },
      { y: 7 },
    ]);
  });

  test.each([
    ['a,b\n1\n', {}, /byte 4: the line must have 2 values, but has 1/],
    ['a,b\n1,"x"y\n', {}, /follows the closing quote of value 2/],
    ['a,b\n1,x"y\n', { isSplittable: true }, /value 2 contains a quote but does not begin with one/],
    ['a,b\nx,2\n', { columnConfigs: { a: { dtype: 'float32' } } }, /column a has "x", which is not a number/],
    ['a,b\n1.5,2\n', { columnConfigs: { a: { dtype: 'int32' } } }, /not a 32-bit integer/],
    ['a,b\n,2\n', { columnConfigs: { a: { required: true } } }, /column a has no value/],
    ['a,b\n1,2\n', { columnConfigs: { c: {} } }, /the file has no column c \(columns: a, b\)/],
    ['a,b\n1,2\n', { hasHeader: false }, /require columnNames/],
  ] as const)('%j is rejected', async (text, options, message) => {
    const folder = await folderWith({ 'a.csv': text });
    await expect(csv(folder, options).toArray({ storage })).rejects.toMatchObject({
      code: 'DATA_INVALID',
      message: expect.stringMatching(message),
    });
  });

  test('a CSV file is split if isSplittable declares that no value contains a line break', async () => {
    const rows = Array.from({ length: 200 }, (_, index) => `${index},${index * 2}`);
    const folder = await folderWith({ 'a.csv': `a,b\n${rows.join('\n')}\n` });
    const options = { isSplittable: true, splitBytes: 100 };
    const shares = [0, 1, 2].map((index) =>
      csv<{ a: number; b: number }>(folder, options).toArray({ storage, share: { index, count: 3 } }),
    );
    const read = (await Promise.all(shares)).flat().sort((one, other) => one.a - other.a);
    expect(read).toEqual(rows.map((_, index) => ({ a: index, b: index * 2 })));
  });

  test('fields are split at delimiters outside quotes', () => {
    expect(splitFields('', ',')).toEqual(['']);
    expect(splitFields(',', ',')).toEqual(['', '']);
    expect(splitFields('"",""', ',')).toEqual(['', '']);
    expect(() => splitFields('"a', ',')).toThrow('not closed');
  });
});
