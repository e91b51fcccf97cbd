import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import type { TrainingData } from './data.ts';
import { fromGenerator } from './datasets/sources.ts';
import { StepProfile } from './profile.ts';
import { StepClock } from './profile-clock.ts';
import type { SummaryWriter } from './summary.ts';
import type { Report } from './task-context.ts';
import { classifier, examples, fitTogether } from './testing/fit-world.ts';

describe('the profile', () => {
  test('tells means over the steps since the last look', () => {
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
      profile.ranksWereBusy(Float32Array.of(1 + ms, 20));
      profile.stepTaken();
    }
    const first = {
      'profile/input ms': 1,
      'profile/compute ms': 3,
      'profile/exchange ms': 10,
      'profile/update ms': 0,
      'profile/other ms': 0,
      'profile/step ms': 14,
      'profile/slowest rank': 1,
      'profile/slowest rank ms': 20,
    };
    expect(window.take()).toEqual(first);
    expect(window.take()).toEqual({});
    expect(profile.busySinceLast()).toBe(8);
    expect(profile.busySinceLast()).toBe(0);
    profile.clock.enter('checkpoint');
    now += 5;
    profile.stepTaken();
    expect(window.take()).toMatchObject({ 'profile/checkpoint ms': 5, 'profile/step ms': 5, 'profile/slowest rank ms': 0 });
  });
});

/** What a rank has reported as its profile, summed over the reports. */
function profileOf(reports: readonly Report[]): Record<string, number>[] {
  return reports.flatMap((report) =>
    report.type === 'progress' && report.metrics?.['profile/step ms'] !== undefined ? [report.metrics as Record<string, number>] : [],
  );
}

/** Keeps the thread for so long, as computation does. */
function keepBusy(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

describe('where the time of a step goes', () => {
  test('into waiting for a slow input', async () => {
    const slow = fromGenerator(async function* () {
      for (let index = 0; index < 60; index++) {
        await pause(20);
        yield { xs: Float32Array.of(1, 2, 3, 4), ys: Float32Array.of(1, 0, 0) };
      }
    });
    const reports: Report[][] = [[]];
    await fitTogether([classifier(tf.train.sgd(0.1))], slow.batch(1), {}, { reports });
    const [metrics] = profileOf(reports[0] as Report[]);
    expect(metrics?.['profile/input ms']).toBeGreaterThan(15);
    expect(metrics?.['profile/input ms']).toBeGreaterThan(0.7 * (metrics?.['profile/step ms'] as number));
    expect(metrics).not.toHaveProperty('profile/slowest rank');
  });

  test('into making tensors of it', async () => {
    const data = examples(40);
    const prepare: NonNullable<TrainingData['prepare']> = (batch) => {
      keepBusy(50);
      return batch;
    };
    const reports: Report[][] = [[]];
    await fitTogether([classifier(tf.train.sgd(0.1))], { ...data, prepare }, { batchSize: 1 }, { reports });
    expect(profileOf(reports[0] as Report[])[0]?.['profile/input ms']).toBeGreaterThan(45);
  });

  test('into the exchange where another rank is slow, which is named', async () => {
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
    await fitTogether(
      models,
      examples(60),
      (rank) => ({ batchSize: 1, epochs: 2, callbacks: { onBatchEnd: () => (rank === 1 ? pause(40) : undefined) } }),
      { reports, summaries },
    );
    const [[fast], [slow]] = [profileOf(reports[0] as Report[]), profileOf(reports[1] as Report[])];
    expect(fast?.['profile/exchange ms']).toBeGreaterThan(25);
    expect(fast?.['profile/exchange ms']).toBeGreaterThan(0.6 * (fast?.['profile/step ms'] as number));
    expect(slow?.['profile/other ms']).toBeGreaterThan(35);
    expect(slow?.['profile/exchange ms']).toBeLessThan(fast?.['profile/exchange ms'] as number);
    for (const metrics of [fast, slow, written.at(-1)]) {
      expect(metrics?.['profile/slowest rank']).toBe(1);
      expect(metrics?.['profile/slowest rank ms']).toBeGreaterThan(35);
    }
    expect(written.at(-1)).toMatchObject({ loss: expect.any(Number), 'profile/exchange ms': expect.any(Number) });
  });
});
