import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import * as tf from '@tensorflow/tfjs';
import { expect, expectTypeOf, onTestFinished, test } from 'vitest';
import { fitTogether } from '../../../testing/fit-world.ts';
import type { Dataset } from '../../sources/dataset.ts';
import { csv } from '../../sources/sources.ts';
import type { ColumnConfig, CsvRow, LabelledCsvRow } from './csv.ts';

async function irises(): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-test-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const file = path.join(folder, 'iris.csv');
  await writeFile(file, `length,width,species\n${'5.1,3.5,0\n6.2,2.9,1\n'.repeat(4)}`);
  return file;
}

function model(): tf.LayersModel {
  const made = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [2] })] });
  made.compile({ optimizer: 'sgd', loss: 'meanSquaredError' });
  return made;
}

test('the type of the rows tells whether they have labels', () => {
  expectTypeOf(csv('x')).toEqualTypeOf<Dataset<CsvRow>>();
  expectTypeOf(csv('x', { delimiter: ';' })).toEqualTypeOf<Dataset<CsvRow>>();
  expectTypeOf(csv('x', { columnConfigs: { a: { dtype: 'int32' }, b: { isLabel: false } } })).toEqualTypeOf<Dataset<CsvRow>>();
  expectTypeOf(csv('x', { columnConfigs: { a: { dtype: 'int32' }, b: { isLabel: true } } })).toEqualTypeOf<Dataset<LabelledCsvRow>>();
  const columnConfigs: Record<string, ColumnConfig> = { a: { isLabel: true } };
  expectTypeOf(csv('x', { columnConfigs })).toEqualTypeOf<Dataset<CsvRow | LabelledCsvRow>>();
  expectTypeOf(csv<{ a: number }>('x')).toEqualTypeOf<Dataset<{ a: number }>>();
  csv('x').map((row) => row.a);
});

test('named columns that the model does not have are refused, and the hint combines them', async () => {
  const data = csv(await irises(), { columnConfigs: { species: { isLabel: true } } }).batch(4);
  await expect(fitTogether([model()], data as never, {})).rejects.toMatchObject({
    code: 'DATA_INVALID',
    message: 'the data has 2 inputs and 1 targets; the model has 1 and 1 (columns: length, width)',
    hint: expect.stringContaining('({ xs: [xs.length, xs.width], ys: [ys.species] })'),
  });
});

test('columns that are combined as in the hint train the model', async () => {
  const data = csv(await irises(), { columnConfigs: { species: { isLabel: true } } })
    .map(({ xs, ys }) => ({ xs: [Number(xs.length), Number(xs.width)], ys: [Number(ys.species)] }))
    .batch(4);
  await expect(fitTogether([model()], data, { epochs: 1 })).resolves.toBeDefined();
});
