import fc from 'fast-check';
import { expect, test } from 'vitest';
import { FileStorage } from '../../../../storage/file-storage.ts';
import { csv } from '../../sources/sources.ts';
import { folderWith } from '../../testing/files.ts';
import type { CsvOptions } from './csv.ts';

const storage = new FileStorage();

const OPTIONS: readonly CsvOptions[] = [
  {},
  { columnConfigs: { a: { dtype: 'int32' }, b: { isLabel: true } } },
  { columnConfigs: { a: { default: -1 }, b: { dtype: 'string' } }, configuredColumnsOnly: true },
  { columnConfigs: { a: { required: true, dtype: 'float32' }, b: { dtype: 'bool', default: false } } },
  { missingValues: ['0', 'x'], columnConfigs: { a: { default: 7 }, b: { default: 7 } } },
  { skipDamaged: true, columnConfigs: { a: { dtype: 'float32', isLabel: true } } },
  { delimiter: '.', encoding: 'latin1' },
];

test.each(OPTIONS)('a batch directly after csv is the one of the rows, or the same error: %j', async (options) => {
  const value = fc.oneof(
    { weight: 30, arbitrary: fc.integer({ min: -9, max: 9 }).map(String) },
    { weight: 5, arbitrary: fc.double({ noNaN: true }).map(String) },
    {
      weight: 1,
      arbitrary: fc.constantFrom(
        '',
        'x',
        '"q"',
        '1e3',
        'nan',
        'true',
        '0x1',
        ' 1',
        '1,2',
        '"',
        '\r',
        'é',
        '2147483648',
        '123456789012345678901',
      ),
    },
  );
  const file = fc.array(fc.tuple(value, value), { maxLength: 12 });
  const outcome = (work: Promise<unknown[]>) => work.catch(({ code, message }) => ({ code, message }));
  const folder = await folderWith();
  const name = `file://${folder}/x.csv`;
  await fc.assert(
    fc.asyncProperty(file, fc.integer({ min: 1, max: 5 }), async (rows, size) => {
      const delimiter = options.delimiter ?? ',';
      await storage.write(name, Buffer.from([['a', 'b'], ...rows].map((row) => `${row.join(delimiter)}\n`).join('')));
      const dataset = csv(name, options);
      const ofObjects = await outcome(
        dataset
          .map((row) => row)
          .batch(size)
          .toArray({ storage }),
      );
      expect(await outcome(dataset.batch(size).toArray({ storage }))).toEqual(ofObjects);
    }),
    { numRuns: 40 },
  );
});
