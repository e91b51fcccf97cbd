import * as tf from '@tensorflow/tfjs';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Report } from '../../contract/process/task-context.ts';
import type { SummaryWriter } from '../../contract/summary/summary.ts';
import type { TrainingData } from '../data/data.ts';
import { fromGenerator } from '../data/sources/sources.ts';
import type { FitCallbacks } from '../fit/callbacks.ts';
import { classifier, examples, fitTogether } from '../testing/fit-world.ts';
import { StepProfile } from './profile.ts';
import { StepClock } from './profile-clock.ts';

describe('the profile', () => {
  test('reports means over the steps since the previous report', () => {
    let now = 0;
    const profile = new StepProfile(new StepClock(() => now));
    const window = profile.window();
    expect(window.take()).toEqual({});
    for (const ms of [2, 4]) {
      profile.clock.enter('input');
      now += 1;
      profile.clock.enter('compute');
      now += ms;
      profile.clock.enter('exchange');
      now += 10;
      profile.clock.enter('other');
      profile.addBusyTimes(Float32Array.of(1 + ms, 20));
      profile.stepTaken();
    }
    const first = {
      'profile/input_ms': 1,
      'profile/compute_ms': 3,
      'profile/exchange_ms': 10,
      'profile/update_ms': 0,
      'profile/other_ms': 0,
      'profile/step_ms': 14,
      'profile/slowest_rank': 1,
      'profile/slowest_rank_ms': 20,
    };
    expect(window.take()).toEqual(first);
    expect(window.take()).toEqual({});
    expect(profile.busySinceLast()).toBe(8);
    expect(profile.busySinceLast()).toBe(0);
    profile.clock.enter('checkpoint');
    now += 5;
    profile.stepTaken();
    expect(window.take()).toMatchObject({ 'profile/checkpoint_ms': 5, 'profile/step_ms': 5, 'profile/slowest_rank_ms': 0 });
  });
});

function profileOf(reports: readonly Report[]): Record<string, number>[] {
  return reports.flatMap((report) =>
    report.type === 'progress' && report.metrics?.['profile/step_ms'] !== undefined ? [report.metrics as Record<string, number>] : [],
  );
}

describe('the profile attributes the time of a step', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['performance', 'Date'] }));
  afterEach(() => void vi.useRealTimers());
  const pass = (ms: number) => void vi.advanceTimersByTime(ms);
  const turn = () => new Promise((resolve) => setImmediate(resolve));

  test('the time of a slow dataset counts as `input`', async () => {
    // The first step waits for all examples, because the dataset is small.
    const slow = fromGenerator(async function* () {
      for (let index = 0; index < 12; index++) {
        pass(20);
        yield { xs: Float32Array.of(1, 2, 3, 4), ys: Float32Array.of(1, 0, 0) };
      }
    });
    const reports: Report[][] = [[]];
    await fitTogether([classifier(tf.train.sgd(0.1))], slow.batch(1), {}, { reports });
    const [metrics] = profileOf(reports[0] as Report[]);
    expect(metrics).toMatchObject({ 'profile/input_ms': 20, 'profile/step_ms': 20 });
    expect(metrics).not.toHaveProperty('profile/slowest_rank');
  });

  test('the time of a slow preparation of a batch counts as `input`', async () => {
    const prepare: NonNullable<TrainingData['prepare']> = (batch) => {
      pass(50);
      return batch;
    };
    const reports: Report[][] = [[]];
    await fitTogether([classifier(tf.train.sgd(0.1))], { ...examples(12), prepare }, { batchSize: 1 }, { reports });
    expect(profileOf(reports[0] as Report[])[0]).toMatchObject({ 'profile/input_ms': 50, 'profile/step_ms': 50 });
  });

  test('the time of waiting for a slow rank counts as `exchange`, and the profile names that rank', async () => {
    const reports: Report[][] = [[], [], []];
    const written: Record<string, number>[] = [];
    const summaries = {
      addHparams: () => {},
      graph: () => {},
      scalar: () => {},
      scalars: (values: Record<string, number>) => void written.push(values),
      flush: async () => {},
      endSession: () => {},
    } as unknown as SummaryWriter;
    const models = [0, 1, 2].map(() => classifier(tf.train.sgd(0.1)));
    const begun = [0, 0, 0];
    const data = (rank: number): TrainingData => ({
      ...examples(18),
      prepare: (batch) => {
        begun[rank] = (begun[rank] as number) + 1;
        return batch;
      },
    });
    const callbacks: FitCallbacks = {
      onBatchEnd: async (_, { step }) => {
        if (step === 6) {
          return;
        }
        // Waits until the other ranks are waiting for this rank in their next step.
        while (begun[0] === step || begun[2] === step) {
          await turn();
        }
        pass(40);
      },
    };
    await fitTogether(models, data, (rank) => ({ batchSize: 1, ...(rank === 1 ? { callbacks } : {}) }), { reports, summaries });
    const [[fast], [slow]] = [profileOf(reports[0] as Report[]), profileOf(reports[1] as Report[])];
    const mean = 33.333;
    expect(fast).toMatchObject({ 'profile/exchange_ms': mean, 'profile/other_ms': 0, 'profile/step_ms': mean });
    expect(slow).toMatchObject({ 'profile/exchange_ms': 0, 'profile/other_ms': mean, 'profile/step_ms': mean });
    for (const metrics of [fast, slow]) {
      expect(metrics).toMatchObject({ 'profile/slowest_rank': 1, 'profile/slowest_rank_ms': mean });
    }
    // The last summary excludes the first step.
    const last = { 'profile/exchange_ms': 40, 'profile/slowest_rank': 1, 'profile/slowest_rank_ms': 40 };
    expect(written.at(-1)).toMatchObject({ loss: expect.any(Number), ...last });
  });
});
