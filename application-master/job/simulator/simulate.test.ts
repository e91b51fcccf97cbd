import { describe, expect, it } from 'vitest';
import { type Outcome, simulate } from './simulate.ts';

// Each seed determines one simulated day, so results change only with the code. To trace a single day: SEED=123 npx vitest run --project
// unit application-master/job/simulator. To simulate other days: SEEDS=10001-50000 npx vitest run ...

const TRACE_LINES = 200;
const [first = 1, last = first] = (process.env.SEED ?? process.env.SEEDS ?? '1-2000').split('-').map(Number);
const BATCH = 500;
const batches = Array.from({ length: Math.ceil((last - first + 1) / BATCH) }, (_, at) => first + at * BATCH);

const outcomes = new Map<number, Outcome>();
/** Simulates each day only once. */
function outcomeOf(seed: number): Outcome {
  const outcome = outcomes.get(seed) ?? simulate(seed);
  outcomes.set(seed, outcome);
  return outcome;
}

describe('the job machine keeps its invariants under simulated failures', () => {
  it.each(batches)('from seed %i', (from) => {
    for (let seed = from; seed < Math.min(from + BATCH, last + 1); seed++) {
      const { violations } = outcomeOf(seed);
      if (violations.length > 0 || process.env.SEED !== undefined) {
        const { trace, result } = simulate(seed, { trace: true });
        process.stderr.write(`${trace.slice(process.env.SEED === undefined ? -TRACE_LINES : 0).join('\n')}\n`);
        process.stderr.write(`seed ${seed}: ${result?.state} ${result?.message}\n`);
      }
      expect({ replay: `SEED=${seed}`, violations }).toEqual({ replay: `SEED=${seed}`, violations: [] });
    }
  });

  it('simulates the same seed identically, with and without a trace', () => {
    expect(simulate(4).trace).toEqual([]);
    expect(simulate(4, { trace: true })).toEqual(simulate(4, { trace: true }));
  });

  it('covers failures, new generations, second attempts and every final state', () => {
    const outcomes = Array.from({ length: 400 }, (_, at) => outcomeOf(at + 1));
    expect(new Set(outcomes.map((outcome) => outcome.result?.state))).toEqual(new Set(['succeeded', 'failed', 'killed']));
    expect(outcomes.filter((outcome) => outcome.generations > 1).length).toBeGreaterThan(40);
    expect(outcomes.filter((outcome) => outcome.attempts > 1).length).toBeGreaterThan(40);
    const changes = outcomes.flatMap(({ sizes }) => sizes.slice(1).map((size, at) => size - (sizes[at] ?? 0)));
    expect(changes.filter((change) => change > 0).length).toBeGreaterThan(5);
    expect(changes.filter((change) => change < 0).length).toBeGreaterThan(5);
    expect(outcomes.filter((outcome) => outcome.failures > 0).length).toBeGreaterThan(100);
  });
});
