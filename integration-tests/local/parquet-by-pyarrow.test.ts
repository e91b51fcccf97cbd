import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Column } from '../../contract/encoding/idx.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { parquet } from '../../training/data/sources/sources.ts';
import { execute } from '../execute.ts';
import { sparkEnvironment } from '../spark-environment.ts';

/*
 * pyarrow writes tables with each codec, page version and encoding, in small pages and row groups, and prints the rows that it reads. Some
 * columns are decoded by this library, and all others by hyparquet.
 */

const WRITE = `
import itertools, json, random, sys
import pyarrow as pa, pyarrow.parquet as pq
ROWS = 200
random.seed(1)
def number(kind):
    if kind.startswith('int'):
        return random.choice([0, 1, -1, random.randrange(-2**31, 2**31), random.randrange(10)])
    return random.choice([0.0, -1.5, random.random(), 2.0**100, 1.0 / random.randrange(1, 5)])
def column(kind, shape, nulls):
    def item():
        return None if nulls == 'items' and random.random() < 0.2 else number(kind)
    def row():
        if nulls == 'rows' and random.random() < 0.2:
            return None
        return item() if shape == 'flat' else [item() for _ in range(3 if shape == 'fixed' else random.choice([0, 1, 2, 20]) )]
    type = {'float': pa.float32(), 'double': pa.float64(), 'int32': pa.int32(), 'int64': pa.int64()}[kind]
    return pa.array([row() for _ in range(ROWS)], type if shape == 'flat' else pa.list_(type))
KINDS = ('float', 'double', 'int32', 'int64')
names = [(k, s, n) for k, s, n in itertools.product(KINDS, ('flat', 'fixed', 'ragged'), ('none', 'rows', 'items')) if (s, n) != ('flat', 'items')]
columns = {'_'.join(name): column(*name) for name in names}
columns['ragged_but_not_empty'] = pa.array([[1.5] * (1 + row % 9) for row in range(ROWS)], pa.list_(pa.float32()))
columns['wide'] = pa.array([[row, row / 3] * 75 for row in range(ROWS)], pa.list_(pa.float32(), 150))
columns['unsigned'] = pa.array([row * 8_000_000 for row in range(ROWS)], pa.uint32())
columns['flag'] = pa.array([row % 3 == 0 for row in range(ROWS)])
columns['text'] = pa.array([str(row % 7) for row in range(ROWS)])
columns['required'] = pa.array(range(ROWS), pa.int64())
table = pa.table(columns)
table = table.cast(pa.schema([field.with_nullable(field.name != 'required') for field in table.schema]))
for codec, version, encoding in itertools.product(sys.argv[2].split(), ('1.0', '2.0'), ('dictionary', 'plain', 'split')):
    options = {'use_dictionary': encoding == 'dictionary', 'use_byte_stream_split': ['wide', 'float_flat_none'] if encoding == 'split' else False}
    file = f'{sys.argv[1]}/{codec}-{version}-{encoding}.parquet'
    pq.write_table(table, file, compression=codec, data_page_version=version, row_group_size=70, data_page_size=700,
        write_batch_size=16, dictionary_pagesize_limit=300, **options)
    assert pq.read_table(file).to_pylist() == table.to_pylist()
json.dump(table.to_pylist(), open(f'{sys.argv[1]}/rows.json', 'w'))
`;

const CODECS = ['none', 'snappy', 'gzip', 'zstd', 'lz4', 'brotli'];
const FILES = CODECS.flatMap((codec) =>
  ['1.0', '2.0'].flatMap((version) => ['dictionary', 'plain', 'split'].map((encoding) => `${codec}-${version}-${encoding}.parquet`)),
);
const ARRAYS = {
  float: Float32Array,
  double: Float64Array,
  int32: Int32Array,
  int64: Int32Array,
  ragged: Float32Array,
  wide: Float32Array,
};

const storage = new FileStorage();
let folder = '';
let rows: Record<string, unknown>[] = [];

type Stored = number | string | boolean | null | (number | null)[];

/** Returns the value of an element that the documentation promises for a stored value. */
function elementOf(name: string, stored: Stored): unknown {
  if (stored === null) {
    return fillOf(name);
  }
  const List = ARRAYS[name.split('_')[0] as keyof typeof ARRAYS];
  return Array.isArray(stored) ? List.from(stored.map((item) => item ?? (fillOf(name) as number))) : stored;
}

function fillOf(name: string): number | number[] {
  return name.endsWith('_rows') && !name.includes('_flat_') ? [7] : -1;
}

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-parquet-test-'));
  await execute(await sparkEnvironment(), ['-c', WRITE, folder, CODECS.join(' ')]);
  const stored = JSON.parse(await readFile(path.join(folder, 'rows.json'), 'utf8')) as Record<string, Stored>[];
  rows = stored.map((row) => Object.fromEntries(Object.entries(row).map(([name, value]) => [name, elementOf(name, value)])));
});

afterAll(() => rm(folder, { recursive: true, force: true }));

describe.each(FILES)('%s', (name) => {
  const open = (columns: readonly string[]) => {
    const missing = columns.filter((column) => /_(rows|items)$/.test(column));
    return parquet(path.join(folder, name), { columns, fill: Object.fromEntries(missing.map((column) => [column, fillOf(column)])) });
  };

  test('has the rows that pyarrow reads', async () => {
    expect(await open(Object.keys(rows[0] ?? {})).toArray({ storage })).toEqual(rows);
  });

  test('has the same batches with and without an object for each row', async () => {
    const columns = Object.keys(rows[0] ?? {}).filter((column) => !/ragged|fixed_rows/.test(column));
    const batches: unknown[] = await open(columns).batch(64).toArray({ storage });
    const ofObjects: unknown[] = await open(columns)
      .map((row) => row)
      .batch(64)
      .toArray({ storage });
    expect(batches).toEqual(ofObjects);
    const numbers = batches.flatMap((batch) => [...(batch as { required: Column }).required.values]);
    expect(numbers).toEqual(rows.map((_, index) => index));
  });
});
