import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { FileStorage } from '../../../../storage/file-storage.ts';
import { avro, parquet } from '../../sources/sources.ts';
import type { TableRow } from './table-values.ts';

const GOLDEN = path.join(import.meta.dirname, '..', '..', 'golden', 'tables');
const storage = new FileStorage();

interface Expected {
  readonly parquet: boolean;
  readonly avro: boolean;
  readonly values: readonly unknown[];
}

/** The columns of logical-types.parquet and logical-types.avro, with the values that Python's exact arithmetic computes. */
const columns = Object.entries(JSON.parse(await readFile(path.join(GOLDEN, 'logical-types.json'), 'utf8')) as Record<string, Expected>);
const MISSING = 'missing';

async function rowsOf(format: 'parquet' | 'avro'): Promise<TableRow[]> {
  const own = columns.filter(([, column]) => column[format]).map(([name]) => name);
  const options = { columns: own, fill: Object.fromEntries(own.map((name) => [name, MISSING])) };
  const file = path.join(GOLDEN, `logical-types.${format}`);
  return await (format === 'parquet' ? parquet(file, options) : avro(file, options)).toArray({ storage });
}

const read = { parquet: await rowsOf('parquet'), avro: await rowsOf('avro') };

test.each(columns)('the values of the type %s are those of Python in both formats, and the last is missing', (name, expected) => {
  const values = expected.values.map((value) => {
    if (typeof value === 'object' && value !== null && 'bytes' in value) {
      return Buffer.from(value.bytes as number[]);
    }
    return value ?? MISSING;
  });
  for (const format of ['parquet', 'avro'] as const) {
    if (expected[format]) {
      expect(read[format].map((row) => row[name])).toEqual([...values, MISSING]);
    }
  }
});

test('most types exist in both formats', () => {
  expect(columns.filter(([, column]) => column.parquet && column.avro).length).toBeGreaterThan(35);
});

test('a timestamp of the type INT96 is read as one in nanoseconds', async () => {
  const rows = await parquet(path.join(GOLDEN, 'int96.parquet'), { fill: { int96: MISSING } }).toArray({ storage });
  const nanoseconds = [0n, 1n, -1n, 1_795_867_200_123_456_789n, -(2n ** 60n) + 7n];
  expect(rows.map(({ int96 }) => int96)).toEqual([...nanoseconds.map((value) => Number(`${value}e-6`)), MISSING]);
});
