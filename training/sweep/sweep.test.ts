import { readdir, readFile } from 'node:fs/promises';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createStorage } from '../../storage/create-storage.ts';
import { fileUri } from '../../storage/uri.ts';
import type { Cluster } from '../cluster/cluster.ts';
import { folderWith } from '../data/testing/files.ts';
import { type SweepOptions, sweep } from './sweep.ts';
import { type Configuration, grid, randomSearch } from './sweep-space.ts';
import { ranked, type TrialResult } from './sweep-table.ts';

const storage = createStorage({ hadoop: null, user: 'alice' });

/** What the tasks of `folder` have reported: the last metrics of each task, and notices. */
interface Reported {
  readonly metrics: Map<number, Readonly<Record<string, number>>>;
  readonly notices: string[];
}

/** Outside a job, a task claims all trials that have no result yet. */
function task(index: number, folder: string, worldSize = 1, reported: Reported = { metrics: new Map(), notices: [] }): Cluster {
  const parts = {
    storage,
    role: 'trial',
    index,
    worldSize,
    outputUri: fileUri(`${folder}/output`),
    summaryUri: fileUri(`${folder}/summaries`),
    report: (values: Readonly<Record<string, number>>) => reported.metrics.set(index, values),
    notice: (message: string) => reported.notices.push(message),
  };
  return parts as unknown as Cluster;
}

const SPACE = grid({ rate: [0.1, 0.01, 0.001], units: [4, 8] });
const OPTIONS: SweepOptions = { metric: 'accuracy', mode: 'max' };
const score = ({ rate, units }: { rate: number; units: number }) => ({ accuracy: 1 - rate * units, size: units });

test('grid returns every combination, and randomSearch is determined by its seed', () => {
  expect(SPACE).toEqual([
    { rate: 0.1, units: 4 },
    { rate: 0.1, units: 8 },
    { rate: 0.01, units: 4 },
    { rate: 0.01, units: 8 },
    { rate: 0.001, units: 4 },
    { rate: 0.001, units: 8 },
  ]);
  expect(() => grid({ rate: [] })).toThrow(/rate needs a list of at least one value/);
  const space = {
    rate: { min: 1e-5, max: 1e-1, scale: 'log' },
    units: { min: 1, max: 3, integer: true },
    activation: ['relu', 'tanh'],
  } as const;
  fc.assert(
    fc.property(fc.integer(), fc.integer({ min: 1, max: 50 }), (seed, trials) => {
      const drawn = randomSearch(space, { trials, seed });
      expect(drawn).toEqual(randomSearch(space, { trials: trials + 5, seed }).slice(0, trials));
      for (const { rate, units, activation } of drawn) {
        expect(rate).toBeGreaterThanOrEqual(1e-5);
        expect(rate).toBeLessThanOrEqual(1e-1);
        expect([1, 2, 3]).toContain(units);
        expect(['relu', 'tanh']).toContain(activation);
      }
    }),
  );
  const many = randomSearch(space, { trials: 3000 });
  const share = (keep: (each: (typeof many)[number]) => boolean) => many.filter(keep).length / many.length;
  expect(share(({ rate }) => rate < 1e-3)).toBeCloseTo(0.5, 1);
  for (const units of [1, 2, 3]) {
    expect(share((each) => each.units === units)).toBeCloseTo(1 / 3, 1);
  }
  expect(() => randomSearch({ rate: { min: 0, max: 1, scale: 'log' } }, { trials: 1 })).toThrow(/logarithmic/);
});

test('every task gets all results; the task with index 0 writes the tables and names the best trial', async () => {
  const folder = await folderWith();
  const reported: Reported = { metrics: new Map(), notices: [] };
  const first = await sweep(
    task(1, folder, 1, reported),
    SPACE,
    async (configuration, trial) => {
      trial.report({ loss: 2 }, { step: 1 });
      trial.summaries.scalar('extra', 3, 1);
      await storage.write(`${trial.outputUri}/model.json`, Buffer.from('{}'));
      return score(configuration);
    },
    OPTIONS,
  );
  expect(first.computed.map(({ index }) => index)).toEqual([0, 1, 2, 3, 4, 5]);
  expect(first.results.map(({ index }) => index)).toEqual([4, 5, 2, 3, 0, 1]);
  const output = `${folder}/output/sweep`;
  expect(reported.notices).toEqual([]);
  expect(await readdir(output)).not.toContain('results.csv');
  const second = await sweep(task(0, folder, 1, reported), SPACE, async () => ({ accuracy: 2 }), OPTIONS);
  expect(second.computed).toEqual([]);
  expect(second.results).toEqual(first.results);
  expect(reported.notices).toEqual(['the best of 6 trials is trial-00004 {"rate":0.001,"units":4}: accuracy 0.996']);
  expect([...reported.metrics.values()]).toEqual([1, 0].map(() => ({ 'sweep/trials': 6, 'sweep/best': 0.996 })));
  expect((await readFile(`${output}/results.csv`, 'utf8')).split('\n').slice(0, 3)).toEqual([
    'trial,rate,units,accuracy,size,seconds',
    expect.stringMatching(/^trial-00004,0\.001,4,0\.996,4,\d+\.\d$/),
    expect.stringMatching(/^trial-00005,0\.001,8,0\.992,8,\d+\.\d$/),
  ]);
  const json = JSON.parse(await readFile(`${output}/results.json`, 'utf8')) as { trials: TrialResult[]; metric: string };
  expect(json).toMatchObject({ version: 1, metric: 'accuracy', mode: 'max' });
  expect(json.trials[0]).toMatchObject({ name: 'trial-00004', configuration: { rate: 0.001, units: 4 }, task: 'trial:1', error: null });
  expect(await readdir(`${output}/trial-00003`)).toEqual(['model.json']);
  expect((await readdir(`${folder}/summaries`)).sort()).toEqual(SPACE.map((_, index) => `trial-0000${index}`));
  const [events] = await readdir(`${folder}/summaries/trial-00003`);
  const text = await readFile(`${folder}/summaries/trial-00003/${events}`, 'latin1');
  for (const tag of ['session_start_info', 'session_end_info', 'experiment', 'loss', 'extra', 'accuracy', 'rate', 'units']) {
    expect(text).toContain(tag);
  }
  const again = await sweep(task(0, folder), SPACE, () => Promise.reject(new Error('computed twice')), OPTIONS);
  expect(again.computed).toEqual([]);
  expect(again.results.map(({ index }) => index)).toEqual([4, 5, 2, 3, 0, 1]);
});

test('a failed task loses only its current trial', async () => {
  const folder = await folderWith();
  const tried: number[] = [];
  let isDying = true;
  const trial = async (configuration: { rate: number; units: number }, { index }: { index: number }) => {
    tried.push(index);
    if (index === 2 && isDying) {
      throw new Error('out of memory');
    }
    return score(configuration);
  };
  const options = { ...OPTIONS, output: fileUri(`${folder}/elsewhere`) };
  await expect(sweep(task(0, folder), SPACE, trial, options)).rejects.toMatchObject({
    code: 'TRIAL_FAILED',
    message: 'trial-00002 {"rate":0.01,"units":4} failed: out of memory',
  });
  isDying = false;
  const { results } = await sweep(task(0, folder), SPACE, trial, options);
  expect(tried).toEqual([0, 1, 2, 2, 3, 4, 5]);
  expect(results).toHaveLength(6);
});

test('errors and NaN or infinite metrics rank last', async () => {
  const folder = await folderWith();
  const trial = async ({ rate, units }: { rate: number; units: number }) => {
    if (units === 8) {
      throw new Error('too large,\nby far');
    }
    return { accuracy: rate === 0.1 ? Number.NaN : rate === 0.01 ? Number.NEGATIVE_INFINITY : 0.5 };
  };
  const { results } = await sweep(task(0, folder), SPACE, trial, { ...OPTIONS, onError: 'record' });
  expect(results.map(({ index }) => index)).toEqual([4, 0, 1, 2, 3, 5]);
  expect(results[1]?.metrics).toEqual({ accuracy: Number.NaN });
  const csv = await readFile(`${folder}/output/sweep/results.csv`, 'utf8');
  expect(csv).toMatch(/^trial-00000,0\.1,4,NaN,[\d.]+,$/m);
  expect(csv).toMatch(/^trial-00001,0\.1,8,,[\d.]+,"too large, by far"$/m);
  expect(ranked(results, 'accuracy', 'min').map(({ index }) => index)).toEqual([4, 0, 1, 2, 3, 5]);
});

test('sweep rejects invalid configurations and metrics', async () => {
  const folder = await folderWith();
  await expect(sweep(task(0, folder, 2), SPACE, async () => ({ accuracy: 1 }), OPTIONS)).rejects.toThrow(/train together/);
  await expect(sweep(task(0, folder), SPACE, async () => ({ loss: 1 }), OPTIONS)).rejects.toThrow(/no metric accuracy.*it returned: loss/);
  await expect(sweep(task(0, folder), SPACE.slice(1), async () => ({ accuracy: 1 }), OPTIONS)).rejects.toMatchObject({
    code: 'OUTPUT_MISMATCH',
  });
  const odd = async (configurations: readonly Configuration[], options: unknown) =>
    await sweep(task(0, folder), configurations, async () => ({ accuracy: 1 }), options as SweepOptions).then(
      () => null,
      ({ message }: Error) => message,
    );
  expect(await odd([], OPTIONS)).toBe('the sweep has no configurations');
  expect(await odd([{ rate: Number.NaN }], OPTIONS)).toMatch(/^the value of rate in configuration 0 is NaN/);
  expect(await odd(SPACE, { ...OPTIONS, mode: 'maximize' })).toMatch(/^mode of sweep is "maximize"/);
  expect(await odd(SPACE, { mode: 'min' })).toMatch(/^metric of sweep is "", but must be a string that is not empty/);
  expect(await odd(SPACE, { ...OPTIONS, onerror: 'record' })).toMatch(/did you mean onError/);
  const text = { accuracy: 'high' } as unknown as Record<string, number>;
  await expect(sweep(task(0, folder), SPACE, async () => text, OPTIONS)).rejects.toThrow(/a string as metric accuracy/);
});
