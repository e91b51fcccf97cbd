import fc from 'fast-check';
import { expect, test } from 'vitest';
import { nextSplit, type PlannedSplit } from './predict.ts';

const workers = (count: number) => Array.from({ length: count }, (_, index) => ({ index, count }));

test('a worker first takes its own splits in order, then free splits, then splits that other workers may be computing', () => {
  const done = new Set<number>();
  for (const split of [1, 4, 7]) {
    expect(nextSplit(9, (each) => done.has(each), { index: 1, count: 3 })).toEqual({ split, kind: 'own' });
    done.add(split);
  }
  // A worker first selects splits that other workers cannot have reached. Splits 0 and 2 are the first splits of their shares, so other
  // workers may be computing them.
  expect(nextSplit(9, (each) => done.has(each), { index: 1, count: 3 })).toEqual({ split: 6, kind: 'free' });
  for (const split of [3, 5, 6, 8]) {
    done.add(split);
  }
  expect(nextSplit(9, (each) => done.has(each), { index: 1, count: 3 })).toEqual({ split: 2, kind: 'contested' });
  for (const split of [0, 2]) {
    done.add(split);
  }
  expect(nextSplit(9, (each) => done.has(each), { index: 1, count: 3 })).toBeNull();
});

function simulate(splits: number, speeds: readonly number[], deaths: readonly (number | null)[]): { computed: number; done: Set<number> } {
  const done = new Set<number>();
  let computed = 0;
  let living = workers(speeds.length).map((share) => ({ share, at: 0, split: null as number | null }));
  while (living.length > 0) {
    const now = Math.min(...living.map(({ at }) => at));
    living = living.filter(({ share: { index } }) => (deaths[index] ?? Number.POSITIVE_INFINITY) > now);
    for (const worker of living.filter(({ at }) => at === now)) {
      if (worker.split !== null) {
        done.add(worker.split);
      }
      const next: PlannedSplit | null = nextSplit(splits, (each) => done.has(each), worker.share);
      worker.split = next?.split ?? null;
      if (next === null) {
        living = living.filter((each) => each !== worker);
      } else {
        computed++;
        worker.at += speeds[worker.share.index] as number;
      }
    }
  }
  return { computed, done };
}

test('the workers finish all splits as long as one of them survives', () => {
  const speed = fc.integer({ min: 1, max: 20 });
  const worker = fc.record({ speed, death: fc.option(fc.integer({ min: 0, max: 300 })) });
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 60 }), speed, fc.array(worker, { maxLength: 7 }), (splits, survivor, others) => {
      const { done } = simulate(splits, [survivor, ...others.map((each) => each.speed)], [null, ...others.map(({ death }) => death)]);
      expect(done.size).toBe(splits);
    }),
    { numRuns: 300 },
  );
});

test('surviving workers compute few splits twice: at most one per pair of workers', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 200 }),
      fc.array(fc.integer({ min: 10, max: 12 }), { minLength: 1, maxLength: 6 }),
      (splits, speeds) => {
        const { computed } = simulate(splits, speeds, []);
        expect(computed).toBeLessThanOrEqual(splits + speeds.length * speeds.length);
      },
    ),
  );
});
