import { deflateRawSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { FileStorage } from '../../../../storage/file-storage.ts';
import { avro, parquet } from '../../sources/sources.ts';
import { folderWith } from '../../testing/files.ts';
import { parseAvroSchema } from './avro-schema.ts';
import { decodeNumbers } from './parquet-numbers.ts';
import { checkContents, type LeafColumn, pagesOf } from './parquet-pages.ts';

/*
 * Small files that declare much data. Without bounds, each of them takes all memory, or more time than a test can wait.
 */

const storage = new FileStorage();

function long(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value >= 0 ? 2n * BigInt(value) : -2n * BigInt(value) - 1n;
  for (; rest >= 128n; rest >>= 7n) {
    bytes.push(Number(rest & 127n) | 128);
  }
  return Buffer.from([...bytes, Number(rest)]);
}

const text = (value: string): Buffer => Buffer.concat([long(Buffer.byteLength(value)), Buffer.from(value)]);

function avroFile(schema: unknown, blocks: readonly (readonly [count: number, data: Buffer])[], codec = 'null'): Buffer {
  const sync = Buffer.alloc(16, 7);
  const meta = [long(2), text('avro.schema'), text(JSON.stringify(schema)), text('avro.codec'), text(codec), long(0)];
  const parts = blocks.flatMap(([count, data]) => {
    const packed = codec === 'deflate' ? deflateRawSync(data) : data;
    return [long(count), long(packed.length), packed, sync];
  });
  return Buffer.concat([Buffer.from('Obj\x01', 'latin1'), ...meta, sync, ...parts]);
}

const record = (name: string, fields: Readonly<Record<string, unknown>>) => ({
  type: 'record',
  name,
  fields: Object.entries(fields).map(([field, type]) => ({ name: field, type })),
});

/** Each record contains the previous one twice, so a value has 2^levels leaves. */
function doubling(levels: number, leaf: unknown): unknown {
  let type: unknown = record('R0', { x: leaf });
  for (let level = 1; level <= levels; level++) {
    type = record(`R${level}`, { a: type, b: `R${level - 1}` });
  }
  return type;
}

async function readAvro(file: Buffer, options: Parameters<typeof avro>[1] = {}): Promise<unknown[]> {
  const folder = await folderWith({ 'x.avro': file });
  return await avro(folder, options).toArray({ storage });
}

describe('Avro', () => {
  test.each([40, 60, 80])('a schema of %d records, each of which contains the previous one twice, is read once', async (levels) => {
    const schema = record('Row', { id: 'int', deep: doubling(levels, 'null') });
    const file = avroFile(schema, [[2, Buffer.concat([long(1), long(2)])]]);
    expect(await readAvro(file, { columns: ['id'] })).toEqual([{ id: 1 }, { id: 2 }]);
    await expect(readAvro(file)).rejects.toMatchObject({
      code: 'DATA_INVALID',
      message: expect.stringMatching(/too many values that take no bytes/),
    });
    const types = new Set<unknown>();
    const collect = (type: ReturnType<typeof parseAvroSchema>): void => {
      if (!types.has(type)) {
        types.add(type);
        for (const field of type.type === 'record' ? type.fields : []) {
          collect(field.type);
        }
      }
    };
    collect(parseAvroSchema(JSON.stringify(schema)));
    expect(types.size).toBe(levels + 4);
  });

  test.each(['null', record('Empty', {}), { type: 'fixed', name: 'Z', size: 0 }])('items without bytes are limited: %j', async (items) => {
    const schema = record('Row', { id: 'int', list: { type: 'array', items } });
    const list = (blocks: number, each: number) => Buffer.concat([...Array.from({ length: blocks }, () => long(each)), long(0)]);
    for (const blocks of [1000, 2000, 4000]) {
      const file = avroFile(schema, [[1, Buffer.concat([long(7), list(blocks, 2 ** 40)])]]);
      await expect(readAvro(file, { fill: { list: 0 } })).rejects.toMatchObject({
        code: 'DATA_INVALID',
        message: expect.stringMatching(/items that take no bytes/),
      });
      expect(await readAvro(file, { columns: ['id'] })).toEqual([{ id: 7 }]);
    }
  });

  test('records without bytes are limited by the size of the file', async () => {
    const schema = record('Row', { nothing: 'null' });
    const rows = await readAvro(avroFile(schema, [[3, Buffer.alloc(0)]]), { fill: { nothing: 0 } });
    expect(rows).toEqual([{ nothing: 0 }, { nothing: 0 }, { nothing: 0 }]);
    for (const blocks of [20, 40, 80]) {
      const file = avroFile(schema, new Array(blocks).fill([16 * 1024 * 1024, Buffer.alloc(0)]));
      const folder = await folderWith({ 'x.avro': file });
      let count = 0;
      const reading = async (): Promise<void> => {
        for await (const _ of avro(folder, { columns: ['nothing'], fill: { nothing: 0 } }).read({ storage })) {
          count++;
        }
      };
      await expect(reading()).rejects.toMatchObject({ code: 'DATA_INVALID' });
      expect(count).toBeLessThanOrEqual(256 * 1024);
    }
  });

  test('the rows of a block that unpacks to many times its size are decoded a few at a time, and reading continues at any of them', async () => {
    const file = avroFile(record('Row', { flag: 'boolean' }), [[5000, Buffer.alloc(5000)]], 'deflate');
    const folder = await folderWith({ 'x.avro': file });
    const reader = avro(folder).read({ storage });
    for (let taken = 0; taken < 3000; taken++) {
      await reader.next();
    }
    const state = reader.state();
    await reader.return?.();
    expect((await avro(folder).toArray({ storage, state })).length).toBe(2000);
  });

  test.each([
    ['a linked list', record('Node', { next: ['null', 'Node'] }), (depth: number) => Buffer.alloc(depth + 1, 2).fill(0, depth)],
    ['a record that contains itself', record('Node', { next: 'Node' }), () => Buffer.alloc(0)],
  ])('%s is skipped, or refused if it is too deep', async (_, node, encode) => {
    const schema = record('Row', { id: 'int', node });
    const shallow = avroFile(schema, [[1, Buffer.concat([long(7), encode(500)])]]);
    const deep = avroFile(schema, [[1, Buffer.concat([long(7), encode(5_000_000)])]]);
    if (encode(1).length > 0) {
      expect(await readAvro(shallow, { columns: ['id'] })).toEqual([{ id: 7 }]);
    }
    await expect(readAvro(deep, { columns: ['id'] })).rejects.toMatchObject({
      code: 'DATA_INVALID',
      message: expect.stringMatching(/within each other/),
    });
    await expect(readAvro(shallow)).rejects.toMatchObject({
      code: 'DATA_INVALID',
      message: expect.stringMatching(/type recursive, which has no equivalent/),
    });
  });

  test('columns that are not selected may have any type and value', async () => {
    const schema = record('Row', { id: 'int', other: { type: 'map', values: ['int', 'string'] }, large: 'long', any: ['int', 'string'] });
    const other = Buffer.concat([long(1), text('key'), long(1), text('value'), long(0)]);
    const large = Buffer.from('feffffffffffffffff01', 'hex');
    const file = avroFile(schema, [[1, Buffer.concat([long(7), other, large, long(0), long(5)])]]);
    expect(await readAvro(file, { columns: ['id'] })).toEqual([{ id: 7 }]);
    await expect(readAvro(file, { columns: ['large'] })).rejects.toThrow(/9223372036854775807 is outside the range/);
    await expect(readAvro(file, { columns: ['any'] })).rejects.toThrow(/column any has the type int or string/);
  });
});

/** Thrift's compact protocol: a struct of i32 fields and structs. */
function thrift(fields: Readonly<Record<number, number | Buffer>>): Buffer {
  let last = 0;
  const parts = Object.entries(fields).flatMap(([field, value]) => {
    const head = Buffer.from([((Number(field) - last) << 4) | (typeof value === 'number' ? 5 : 12)]);
    last = Number(field);
    return [head, typeof value === 'number' ? long(value) : value];
  });
  return Buffer.concat([...parts, Buffer.from([0])]);
}

describe('Parquet pages', () => {
  const leaf: LeafColumn = {
    type: 'INT64',
    typeLength: undefined,
    maxDefinitionLevel: 1,
    maxRepetitionLevel: 0,
    isCompressed: false,
    isFlat: true,
    values: 8,
  };
  const page = (values: number, contents: Buffer, encoding = 0): Buffer =>
    Buffer.concat([thrift({ 1: 0, 2: contents.length, 3: contents.length, 5: thrift({ 1: values, 2: encoding, 3: 3, 4: 3 }) }), contents]);
  const uint32 = (value: number): Buffer => {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32LE(value);
    return bytes;
  };
  const leb = (value: number): number[] => (value < 128 ? [value] : [(value % 128) | 128, ...leb(Math.floor(value / 128))]);
  const varint = (value: number): Buffer => Buffer.from(leb(value));
  /** Definition levels: a run of one level. */
  const run = (length: number, level: number): Buffer => {
    const bytes = Buffer.concat([varint(length * 2), Buffer.from([level])]);
    return Buffer.concat([uint32(bytes.length), bytes]);
  };
  const check = (chunk: Buffer, own: Partial<LeafColumn> = {}) => {
    const [column, budget] = [{ ...leaf, ...own }, { bytes: 1000 }];
    return checkContents(pagesOf(chunk, column, budget), column, budget);
  };

  test('a sound page passes', () => {
    expect(check(page(8, Buffer.concat([run(8, 1), Buffer.alloc(64)])))).toEqual([]);
    expect(check(page(8, run(8, 0)))).toEqual([]);
  });

  test.each([1, 2, 4])('%d million values in a page of a column with 8 values', (millions) => {
    expect(() => check(page(millions * 1_000_000, run(millions * 1_000_000, 0)))).toThrow('but the footer only 8');
  });

  test.each<[string, Buffer, Partial<LeafColumn>, RegExp]>([
    ['pages whose sum exceeds the footer', Buffer.concat([page(5, run(5, 0)), page(5, run(5, 0))]), {}, /footer only 8/],
    ['a run that is longer than the page', page(8, run(2 ** 30, 0)), {}, /a run of 1073741824 values/],
    ['values that are longer than the page', page(8, Buffer.concat([run(8, 1), Buffer.alloc(63)])), {}, /declares values of 64 bytes/],
    [
      'fixed values of a large width',
      page(8, Buffer.concat([run(8, 1), Buffer.alloc(64)]), 9),
      { type: 'FIXED_LEN_BYTE_ARRAY', typeLength: 2 ** 30 },
      /declares values of/,
    ],
    ['a large dictionary', thrift({ 1: 2, 2: 0, 3: 0, 7: thrift({ 1: 2 ** 30, 2: 0 }) }), {}, /dictionary declares/],
    ['a large page', thrift({ 1: 0, 2: 2 ** 30, 3: 0, 5: thrift({ 1: 1, 2: 0 }) }), {}, /maxGroupBytes/],
    ['a page that begins before itself', thrift({ 1: 0, 2: 1, 3: -20, 5: thrift({ 1: 1, 2: 0 }) }), {}, /header of a page is damaged/],
    ['deltas in blocks of no values', page(8, Buffer.concat([run(8, 1), Buffer.from([0, 4, 8, 0])]), 5), {}, /block has 0 values/],
    [
      'deltas in many parts',
      page(8, Buffer.concat([run(8, 1), Buffer.from([128, 1]), varint(2 ** 31), Buffer.from([8, 0])]), 5),
      {},
      /block has 128 values/,
    ],
  ])('%s cause an error before memory is allocated', (_, chunk, own, message) => {
    expect(() => check(chunk, own)).toThrow(message);
  });

  const dictionary = (values: number, contents: Buffer): Buffer =>
    Buffer.concat([thrift({ 1: 2, 2: contents.length, 3: contents.length, 7: thrift({ 1: values, 2: 0 }) }), contents]);
  const decode = (chunk: Buffer, own: Partial<LeafColumn> = {}) => {
    const column = { ...leaf, ...own };
    return decodeNumbers(pagesOf(chunk, column, { bytes: 1000 }), column, 8, (data) => data);
  };
  /** Indices of one bit each: a run of the same index. */
  const indices = (length: number, index: number): Buffer => Buffer.concat([Buffer.from([1]), varint(length * 2), Buffer.from([index])]);
  const two = Buffer.concat([long(0), Buffer.alloc(7), Buffer.from([9]), Buffer.alloc(7)]);

  test('a column of numbers is decoded, unless a value is missing', () => {
    const chunk = Buffer.concat([dictionary(2, two), page(8, Buffer.concat([run(8, 1), indices(8, 1)]), 8)]);
    expect(decode(chunk)?.numbers).toEqual(new BigInt64Array(8).fill(9n));
    expect(decode(page(8, run(8, 0)))).toBeNull();
  });

  test.each<[string, Buffer, Partial<LeafColumn>, RegExp]>([
    [
      'an index beyond the dictionary',
      Buffer.concat([dictionary(1, two), page(8, Buffer.concat([run(8, 1), indices(8, 1)]), 8)]),
      {},
      /value 1 of/,
    ],
    ['a page without its dictionary', page(8, Buffer.concat([run(8, 1), indices(8, 0)]), 8), {}, /value 0 of a dictionary with 0 values/],
    [
      'a dictionary of too few bytes',
      Buffer.concat([dictionary(3, two), page(8, run(8, 1))]),
      {},
      /declares values of 24 bytes, but contains 16/,
    ],
    [
      'bit-packed indices of too few bytes',
      Buffer.concat([dictionary(2, two), page(8, Buffer.concat([run(8, 1), Buffer.from([9, 3, 1])]), 8)]),
      {},
      /ends within/,
    ],
    [
      'fewer values than the footer declares',
      page(7, Buffer.concat([run(7, 1), Buffer.alloc(56)])),
      {},
      /declare 7 values, but the footer 8/,
    ],
    [
      'fewer rows than the footer declares',
      page(8, Buffer.concat([uint32(2), Buffer.from([3, 0b1111_1100]), run(8, 1), Buffer.alloc(64)])),
      { maxRepetitionLevel: 1 },
      /has 2 rows instead of 8/,
    ],
    [
      'values before the first list',
      page(8, Buffer.concat([run(8, 1), run(8, 1), Buffer.alloc(64)])),
      { maxRepetitionLevel: 1 },
      /begins within a list/,
    ],
  ])('%s cause an error when numbers are decoded', (_, chunk, own, message) => {
    expect(() => decode(chunk, own)).toThrow(message);
  });
});

test('a Parquet footer of a few bytes that declares long lists is rejected', async () => {
  // A struct whose field 2 is a list of 2^28 lists.
  const footer = Buffer.from([0x29, 0xf9, 0x80, 0x80, 0x80, 0x80, 0x01, 0xf9, 0x80, 0x80, 0x80, 0x80, 0x01, 0]);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(footer.length);
  const folder = await folderWith({ 'x.parquet': Buffer.concat([Buffer.from('PAR1'), footer, length, Buffer.from('PAR1')]) });
  await expect(parquet(folder).toArray({ storage })).rejects.toMatchObject({
    code: 'DATA_INVALID',
    message: expect.stringMatching(/footer is damaged \(a list declares 268435456 items/),
  });
});
