import fc from 'fast-check';
import { expect, test } from 'vitest';
import { runGang } from '../../testing/correctness-gang.ts';
import type { CorrectnessCase } from '../../testing/correctness-program.ts';
import { mergeMoments } from './sync-batch-norm.ts';

test('the merged moments of parts equal the moments of the whole, even if the mean is far from 0', () => {
  fc.assert(
    fc.property(
      fc.array(fc.array(fc.float({ min: -3, max: 3, noNaN: true }), { maxLength: 20 }), { minLength: 1, maxLength: 5 }),
      fc.constantFrom(0, 1000),
      (parts, offset) => {
        fc.pre(parts.some((part) => part.length > 0));
        const momentsOf = (values: readonly number[]) => {
          const mean = values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
          const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
          return { mean, variance: squares / Math.max(1, values.length) };
        };
        const rows = parts.flatMap((part) => {
          const { mean, variance } = momentsOf(part.map((value) => value + offset));
          return [part.length, mean, variance];
        });
        const merged = mergeMoments(Float32Array.from(rows), parts.length, 1);
        const whole = momentsOf(parts.flat().map((value) => value + offset));
        expect(merged.count).toBe(parts.flat().length);
        expect(Math.abs((merged.mean[0] as number) - whole.mean)).toBeLessThan(1e-6 + offset * 1e-6);
        expect(Math.abs((merged.variance[0] as number) - whole.variance)).toBeLessThan(1e-5 + offset * 1e-6);
      },
    ),
  );
});

/** The last batch of each epoch has one example, so only the first rank gets an example. */
const SIZES = { batchSize: 4, examples: 25 } as const;

const CASES: readonly CorrectnessCase[] = [
  { net: 'convolutions with batch normalisation', optimizer: 'sgd', ...SIZES },
  { net: 'convolutions with batch normalisation', optimizer: 'adam', ...SIZES, options: { verifyEverySteps: 1, clipNorm: 1 } },
  { net: 'dense layers with batch normalisation', optimizer: 'momentum', ...SIZES },
];

test.each([
  [2, 'authenticated'],
  [3, 'encrypted'],
] as const)(
  '%i ranks with synchronised normalisation train like one rank with whole batches (wire.security: %s)',
  { timeout: 120_000 },
  async (ranks, security) => {
    const results = await runGang(ranks, CASES, { security, env: { ...process.env, TONY_BACKEND: 'cpu' } });
    for (const [first, ...others] of results) {
      expect(first?.difference).toBeLessThan(1e-4);
      expect(first?.lossDifference).toBeLessThan(1e-5);
      expect(first?.moved).toBeGreaterThan(0.05);
      for (const result of [first, ...others]) {
        expect(result).toMatchObject({ hash: first?.hash, leaked: 0 });
      }
    }
  },
);

test('ranks with separate normalisation train differently from one rank, but agree with each other', async () => {
  const options = { syncBatchNorm: false };
  const cases = [{ net: 'convolutions with batch normalisation', optimizer: 'sgd', ...SIZES, options }] as const;
  const [results] = await runGang(2, cases, { env: { ...process.env, TONY_BACKEND: 'cpu' } });
  expect(results?.[0]?.difference).toBeGreaterThan(1e-2);
  expect(results?.[1]?.hash).toBe(results?.[0]?.hash);
});
