import { expect, test } from 'vitest';
import { BestSoFar } from './best-so-far.ts';

const assessments = (options: ConstructorParameters<typeof BestSoFar>[0], values: readonly number[], before: number | null = null) => {
  const best = new BestSoFar(options, before);
  return values.map((value) => {
    const { isBest, isEnough } = best.add(value);
    return `${isBest ? 'best' : '-'}${isEnough ? ' enough' : ''}`;
  });
};

test('BestSoFar exhausts its patience after the configured number of evaluations without an improvement', () => {
  const options = { mode: 'min', patience: 2, minDelta: 0 } as const;
  expect(assessments(options, [3, 4, 2, 2, 5, 1])).toEqual(['best', '-', 'best', '-', '- enough', 'best']);
  expect(assessments({ ...options, mode: 'max' }, [3, 4, 2, 4])).toEqual(['best', 'best', '-', '- enough']);
});

test('BestSoFar counts a change below minDelta as best, and as an improvement once changes add up to minDelta', () => {
  const options = { mode: 'min', patience: 3, minDelta: 0.5 } as const;
  expect(assessments(options, [3, 2.8, 2.6, 2.4, 2.3])).toEqual(['best', 'best', 'best', 'best', 'best']);
  expect(assessments(options, [3, 2.9, 2.8, 2.7, 2.6])).toEqual(['best', 'best', 'best', 'best enough', 'best enough']);
});

test('BestSoFar never accepts NaN as the best value, and has no limit if patience is null', () => {
  expect(assessments({ mode: 'max', patience: null, minDelta: 0 }, [Number.NaN, 1, Number.NaN, 0])).toEqual(['-', 'best', '-', '-']);
});

test('BestSoFar continues from the best value of an earlier process', () => {
  expect(assessments({ mode: 'min', patience: 2, minDelta: 0 }, [3, 1, 2], 2)).toEqual(['-', 'best', '-']);
});
