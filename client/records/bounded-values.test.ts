import fc from 'fast-check';
import { expect, test } from 'vitest';
import { FirstAndNewest, Thinned } from './job-record.ts';

const weights = fc.array(fc.integer({ min: 1, max: 12 }), { maxLength: 200 });

test('FirstAndNewest keeps the first and the newest values within its weight limits', () => {
  fc.assert(
    fc.property(weights, (all) => {
      const kept = new FirstAndNewest<number>({ first: 20, newest: 30 });
      for (const [at, weight] of all.entries()) {
        kept.add(at, weight);
      }
      const { values } = kept;
      const sum = values.reduce((total, at) => total + (all[at] ?? 0), 0);
      expect(kept.weight).toBe(sum);
      expect(sum).toBeLessThanOrEqual(50);
      expect(values).toEqual([...new Set(values)].toSorted((a, b) => a - b));
      if (all.length > 0) {
        expect([values[0], values.at(-1)]).toEqual([0, all.length - 1]);
      }
      // The dropped values are adjacent: they follow the first values and precede the newest values.
      const gaps = values.filter((at, index) => index > 0 && at !== (values[index - 1] ?? 0) + 1);
      expect(gaps.length).toBeLessThanOrEqual(1);
      if (all.reduce((total, weight) => total + weight, 0) <= 20) {
        expect(values).toHaveLength(all.length);
      }
    }),
  );
});

test('Thinned keeps evenly spaced values and always the newest', () => {
  fc.assert(
    fc.property(weights, (all) => {
      const kept = new Thinned<number>(60);
      for (const [at, weight] of all.entries()) {
        kept.add(at, weight);
      }
      const { values } = kept;
      expect(values.at(-1)).toBe(all.length === 0 ? undefined : all.length - 1);
      const steps = new Set(values.slice(1, -1).map((at, index) => at - (values[index] ?? 0)));
      expect(steps.size).toBeLessThanOrEqual(1);
      expect(kept.weight).toBe(values.reduce((total, at) => total + (all[at] ?? 0), 0));
      // Excludes the newest value, which may exceed the limit.
      expect(values.slice(0, -1).reduce((total, at) => total + (all[at] ?? 0), 0)).toBeLessThanOrEqual(60);
    }),
  );
});
