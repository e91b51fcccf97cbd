import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Curve, MAXIMUM_POINTS } from './curve.ts';

function curveOf(steps: readonly number[]): Curve {
  const curve = new Curve();
  for (const step of steps) {
    curve.add(step, step + 0.5, step * 2);
  }
  return curve;
}

test('a short curve keeps all points', () => {
  expect(curveOf([1, 2, 5]).points(MAXIMUM_POINTS)).toEqual({ steps: [1, 2, 5], times: [1.5, 2.5, 5.5], values: [2, 4, 10] });
  expect(new Curve().points(10)).toEqual({ steps: [], times: [], values: [] });
});

test('a long curve is thinned evenly and keeps its first and its newest point', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 6000 }), fc.integer({ min: 2, max: MAXIMUM_POINTS }), (length, maximum) => {
      const { steps } = curveOf(Array.from({ length }, (_, step) => step)).points(maximum);
      expect(steps.length).toBeLessThanOrEqual(maximum);
      expect(steps.length).toBeGreaterThanOrEqual(Math.min(length, Math.floor(maximum / 4)));
      expect(steps[0]).toBe(0);
      expect(steps.at(-1)).toBe(length - 1);
      const gaps = new Set(steps.slice(1, -1).map((step, at) => step - (steps[at] as number)));
      expect(gaps.size).toBeLessThanOrEqual(1);
    }),
    { numRuns: 60 },
  );
});

test('steps ascend for any input, and the latest value of a step wins', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(40), { minLength: 1, maxLength: 200 }), (steps) => {
      const curve = new Curve();
      const expected = new Map<number, number>();
      steps.forEach((step, at) => {
        curve.add(step, 0, at);
        for (const known of [...expected.keys()]) {
          if (known >= step) {
            expected.delete(known);
          }
        }
        expected.set(step, at);
      });
      const points = curve.points(MAXIMUM_POINTS);
      expect(points.steps).toEqual([...expected.keys()]);
      expect(points.values).toEqual([...expected.values()]);
    }),
  );
});

test('a restarted run replaces the points of later steps, even in a thinned curve', () => {
  const curve = curveOf(Array.from({ length: 3000 }, (_, step) => step));
  expect(curve.dropFrom(5000)).toBe(false);
  expect(curve.dropFrom(1000)).toBe(true);
  expect(Math.max(...curve.points(MAXIMUM_POINTS).steps)).toBeLessThan(1000);
  for (let step = 1000; step < 1200; step++) {
    curve.add(step, 0, 0);
  }
  const { steps } = curve.points(MAXIMUM_POINTS);
  expect(steps.at(-1)).toBe(1199);
  expect(steps).toEqual([...steps].sort((a, b) => a - b));
  curve.dropFrom(0);
  expect(curve.points(10).steps).toEqual([]);
});

test('values that JSON cannot represent become null', () => {
  const curve = new Curve();
  [Number.NaN, Number.POSITIVE_INFINITY, 1].forEach((value, step) => {
    curve.add(step, 0, value);
  });
  expect(curve.points(5).values).toEqual([null, null, 1]);
});
