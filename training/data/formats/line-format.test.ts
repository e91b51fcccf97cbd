import { readFile } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { FileStorage } from '../../../storage/file-storage.ts';
import type { Dataset } from '../sources/dataset.ts';
import { csv, jsonl, lines } from '../sources/sources.ts';
import { folderWith } from '../testing/files.ts';
import { LineSplitter, type TextOptions } from './line-format.ts';
import { splitFields } from './tables/csv.ts';

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
          const splitter = new LineSplitter({ where: 'x', offset: 0, maxRecordBytes: 1000 });
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

function fieldsOf(line: string): string[] | null {
  try {
    return splitFields(line, ',');
  } catch {
    return null;
  }
}

describe('text', () => {
  const LATIN = Buffer.from('id\ncafé\n', 'latin1');

  test.each<[string, (files: string, options?: TextOptions) => Dataset<unknown>]>([
    ['lines', lines],
    ['csv', csv],
    ['jsonl', jsonl],
  ])('bytes that are not UTF-8 are damage with a file and a byte: %s', async (name, source) => {
    const good = name === 'jsonl' ? '"a"\n' : 'a\n';
    const folder = await folderWith({
      'a.txt': Buffer.concat([Buffer.from(`${good}${good}`), Buffer.from([0x22, 0xe9, 0x22, 0x0a]), Buffer.from(good)]),
    });
    await expect(source(folder).toArray({ storage })).rejects.toMatchObject({
      code: 'DATA_INVALID',
      message: expect.stringMatching(new RegExp(`a\\.txt, byte ${2 * good.length}: the text is not UTF-8: its byte 1 is 0xe9`)),
    });
    const reader = source(folder, { skipDamaged: true }).read({ storage });
    for await (const _ of reader) {
    }
    expect(reader.skippedRecords).toBe(1);
  });

  test('the option encoding reads other texts', async () => {
    const folder = await folderWith({ 'a.txt': LATIN, 'b.txt': Buffer.from([0x78, 0x0a, 0x80, 0x0a]) });
    expect(await csv(`${folder}/a.txt`, { encoding: 'latin1' }).toArray({ storage })).toEqual([{ id: 'café' }]);
    expect(await lines(`${folder}/b.txt`, { encoding: 'latin1' }).toArray({ storage })).toEqual(['x', '\u0080']);
    expect(() => lines(folder, { encoding: 'utf8' as 'utf-8' })).toThrow('encoding of lines is "utf8", but must be "utf-8" or "latin1"');
  });

  test.each([
    ['UTF-16', Buffer.from('\ufeffa,b\n1,2\n', 'utf16le'), /a\.txt, byte 0: the text is not UTF-8, but UTF-16/],
    ['UTF-16 without a mark', Buffer.from('a,b\n1,2\n', 'utf16le'), /but UTF-16/],
    ['UTF-16, big endian', Buffer.from('\ufeffa,b\n1,2\n', 'utf16le').swap16(), /but UTF-16/],
    ['gzip', gzipSync('a,b\n1,2\n'), /is compressed with gzip, but its name does not end with .gz/],
    // The first bytes that bzip2, zstd, xz, lz4 and zip write.
    ['bzip2', Buffer.from('425a6839314159265359', 'hex'), /is compressed with bzip2, which tony-ts cannot read/],
    ['Zstandard', Buffer.from('28b52ffd2404', 'hex'), /with Zstandard/],
    ['xz', Buffer.from('fd377a585a000004', 'hex'), /with xz/],
    ['LZ4', Buffer.from('04224d186440', 'hex'), /with LZ4/],
    ['zip', Buffer.from('504b03040a00', 'hex'), /with zip/],
  ])('%s is refused', async (_, content, message) => {
    const folder = await folderWith({ 'a.txt': content });
    for (const source of [lines, csv, jsonl]) {
      await expect(source(folder).toArray({ storage })).rejects.toMatchObject({
        code: 'DATA_INVALID',
        message: expect.stringMatching(message),
      });
    }
  });
});

describe('JSON numbers', () => {
  test.each([
    ['{"id":9007199254740993}', /the integer 9007199254740993 is outside/],
    ['[[-9007199254740992]]', /the integer -9007199254740992 is outside/],
    [`{"a":"9007199254740993 \\" ","b":12345678901234567890}`, /the integer 12345678901234567890/],
  ])('%.40s is damaged', async (line, message) => {
    const folder = await folderWith({ 'a.jsonl': `1\n${line}\n` });
    await expect(jsonl(folder).toArray({ storage })).rejects.toMatchObject({
      code: 'DATA_INVALID',
      message: expect.stringMatching(message),
    });
  });

  test('other large numbers and digits in strings pass', async () => {
    const text =
      '{"f":0.12345678901234567,"g":[1234567890.1234567890123456],"a":1e300,"b":9007199254740993.5,"c":"9007199254740993","d":9007199254740991,"9007199254740993":-1.5E+20}';
    const folder = await folderWith({ 'a.jsonl': text });
    expect(await jsonl(folder).toArray({ storage })).toEqual([JSON.parse(text)]);
  });
});

describe('CSV', () => {
  test.each([
    ['sep=;\na;b\n1;2\n', {}, /byte 0: the first line, sep=;, is not a header, but names Excel's delimiter; .* delimiter: ';'/],
    ['sep=;\na;b\n1;2\n', { columnNames: ['a', 'b'], delimiter: ';' }, /byte 0: the first line, sep=;, is not a header/],
    ['\na,b\n1,2\n', {}, /byte 0: the first line is empty, but must contain the column names/],
  ])('%j with the options %j has no header', async (text, options, message) => {
    const folder = await folderWith({ 'a.csv': text });
    await expect(csv(folder, options).toArray({ storage })).rejects.toMatchObject({
      code: 'DATA_INVALID',
      message: expect.stringMatching(message),
    });
  });

  test('a text may begin with BZh', async () => {
    const folder = await folderWith({ 'a.txt': 'BZh9 is no magic number\n' });
    expect(await lines(folder).toArray({ storage })).toEqual(['BZh9 is no magic number']);
  });

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
    ['a,a\n1,2\n', {}, /a\.csv, byte 0: two columns are called "a"/],
    ['a,b\n1,2\n', { columnNames: ['a', 'a'] }, /two columns are called "a"/],
    ['a"b,c\n1,2\n', {}, /a\.csv, byte 0: value 1 contains a quote/],
    ['a,b\r1,2\r', {}, /a\.csv, byte 0: a carriage return without a line feed/],
    ['a,b\r1,2\r', { columnNames: ['a', 'b'] }, /a\.csv, byte 0: a carriage return without a line feed/],
    ['a,b\n"x",y\rz\n', {}, /byte 4: a carriage return without a line feed/],
    ['a,b\n1,9007199254740993\n', {}, /column b has 9007199254740993.*columnConfigs: \{ b: \{ dtype: 'string' \} \}/],
    ['a,b\n1,-9007199254740992 \n', { isSplittable: true }, /column b has -9007199254740992/],
  ] as const)('%j is rejected', async (text, options, message) => {
    const folder = await folderWith({ 'a.csv': text });
    await expect(csv(folder, options).toArray({ storage })).rejects.toMatchObject({
      code: 'DATA_INVALID',
      message: expect.stringMatching(message),
    });
  });

  test('a quote inside an unquoted value damages its own line only', async () => {
    const rows = Array.from({ length: 1000 }, (_, index) => `${index},${index}`);
    const folder = await folderWith({ 'a.csv': `size,n\n5" pipe,0\n${rows.join('\n')}\n7" pipe,0\n8,8\n` });
    const damages: string[] = [];
    const read = await csv(folder, { skipDamaged: true }).toArray({ storage, onDamage: ({ message }) => damages.push(message) });
    expect([read.length, damages.length]).toEqual([1001, 2]);
    expect(damages[0]).toMatch(/a\.csv, byte 7: value 1 contains a quote/);
  });

  test('a file with a damaged header is skipped and counted, and an empty file has no rows', async () => {
    const folder = await folderWith({ 'a.csv': 'a"b,c\n1,2\n', 'b.csv': 'a,c\n3,4\n', 'c.csv': '' });
    const damages: string[] = [];
    const options = { skipDamaged: true, columnConfigs: { a: {} } };
    const read = await csv(folder, options).toArray({ storage, onDamage: ({ message }) => damages.push(message) });
    expect([read, damages.length]).toEqual([[{ a: 3, c: 4 }], 1]);
    await expect(csv(folder, { ...options, columnConfigs: { x: {} } }).toArray({ storage })).rejects.toThrow('no column x');
  });

  test('large numbers remain numbers if they are no integers, and integers can be read as text', async () => {
    const folder = await folderWith({ 'a.csv': 'a,b,c\n9007199254740991,1e300,9007199254740993\n' });
    expect(await csv(folder, { columnConfigs: { c: { dtype: 'string' } } }).toArray({ storage })).toEqual([
      { a: 9_007_199_254_740_991, b: 1e300, c: '9007199254740993' },
    ]);
  });

  test('columns may have the names of properties that objects inherit', async () => {
    const folder = await folderWith({ 'a.csv': '__proto__,constructor\n1,2\n' });
    const [row] = await csv<object>(folder).toArray({ storage });
    expect(Object.entries(row ?? {})).toEqual([
      ['__proto__', 1],
      ['constructor', 2],
    ]);
    const none = csv<object>(folder, { columnConfigs: { constructor: {} }, configuredColumnsOnly: true });
    expect(await none.toArray({ storage })).toEqual([{ constructor: 2 }]);
  });

  test("lines end where they end for Python's csv module, wherever the file is divided into chunks", async () => {
    const cases = JSON.parse(await readFile(new URL('../golden/csv-records.json', import.meta.url), 'utf8')) as [string, string[][]][];
    for (const [text, records] of cases) {
      for (const size of [1, 2, 3, 7, 1000]) {
        const file = Buffer.from(text);
        const splitter = new LineSplitter({ where: 'x', offset: 0, maxRecordBytes: 1000, delimiter: Buffer.from(',') });
        const found: string[] = [];
        for (let at = 0; at < file.length; at += size) {
          found.push(...splitter.push(file.subarray(at, at + size)).map(({ bytes }) => bytes.toString()));
        }
        found.push(...splitter.finish().map(({ bytes }) => bytes.toString()));
        const lines = found.filter((line) => line !== '');
        expect(lines.length).toBe(records.length);
        for (const [index, line] of lines.entries()) {
          // A line that splitFields accepts has the values that Python reads.
          const fields = fieldsOf(line);
          expect(fields ?? records[index]).toEqual(records[index]);
        }
      }
    }
  });

  test('a quote after a byte order mark opens a value', async () => {
    const folder = await folderWith({ 'a.csv': '\ufeff"a\nb",c\n1,2\n' });
    expect(await csv(folder).toArray({ storage })).toEqual([{ 'a\nb': 1, c: 2 }]);
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

test.each([
  ['1', 1],
  [' -2.5e3 ', -2500],
  ['.5', 0.5],
  ['inf', Infinity],
  ['-inf', -Infinity],
  ['+Infinity', Infinity],
  ['NaN', Number.NaN],
  ['nan', Number.NaN],
  ['0x1F', null],
  ['0b11', null],
  ['0o17', null],
  ['1_000', null],
  ['infinite', null],
  ['constructor', null],
  ['12px', null],
])('csv reads %j as pandas does', async (written, number) => {
  const folder = await folderWith({ 'a.csv': `a,b\n${written},x\n` });
  expect(await csv(folder).toArray({ storage })).toEqual([{ a: number ?? written, b: 'x' }]);
  const typed = csv(folder, { columnConfigs: { a: { dtype: 'float32' } } }).toArray({ storage });
  await (number === null
    ? expect(typed).rejects.toThrow('which is not a number')
    : expect(typed).resolves.toEqual([{ a: number, b: 'x' }]));
});
