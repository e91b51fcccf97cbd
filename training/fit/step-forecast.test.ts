import { expect, test } from 'vitest';
import { PhaseProgress } from './phase-progress.ts';
import { StepForecast } from './step-forecast.ts';

const phase = { start: 100 } as ConstructorParameters<typeof PhaseProgress>[0];

function forecastOf(limits: { epochs?: number; steps?: number }, known: { stepsPerEpoch?: number; stepsOfEpoch?: number | null } = {}) {
  const progress = new PhaseProgress(phase, 1);
  const forecast = new StepForecast(
    progress,
    { epochs: Number.POSITIVE_INFINITY, steps: Number.POSITIVE_INFINITY, ...limits },
    { stepsPerEpoch: null, stepsOfEpoch: 0, ...known },
  );
  const take = (count: number, endsEpoch = false): number | undefined => {
    for (let step = 1; step <= count; step++) {
      progress.advance(1, endsEpoch && step === count);
      forecast.afterStep(endsEpoch && step === count);
    }
    return forecast.total;
  };
  return { forecast, take };
}

test('a given number of steps per epoch yields the total at once', () => {
  const { forecast, take } = forecastOf({ epochs: 3 }, { stepsPerEpoch: 10 });
  expect(forecast.total).toBe(130);
  expect(take(4)).toBe(130);
  expect(take(6, true)).toBe(130);
  expect(take(20, true)).toBe(150);
});

test('without it, the first complete epoch yields the total', () => {
  const { forecast, take } = forecastOf({ epochs: 3 });
  expect(forecast.total).toBeUndefined();
  expect(take(7)).toBeUndefined();
  expect(take(1, true)).toBe(124);
  expect(take(3)).toBe(124);
  const resumed = forecastOf({ epochs: 3 }, { stepsOfEpoch: null });
  expect(resumed.take(2, true)).toBeUndefined();
  expect(resumed.take(8, true)).toBe(118);
});

test('the earlier of two limits determines the total, and a loop without limits has no total', () => {
  expect(forecastOf({ steps: 50 }).forecast.total).toBe(150);
  expect(forecastOf({ steps: 50, epochs: 2 }, { stepsPerEpoch: 10 }).forecast.total).toBe(120);
  expect(forecastOf({}).take(5, true)).toBeUndefined();
});
