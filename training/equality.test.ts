/** Compares whole programs with TensorFlow.js alone. `npm run equality` compares thousands of generated programs. */
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { programs } from './testing/equality/arbitrary.ts';
import { EXAMPLES } from './testing/equality/examples.ts';
import { Lane, type Verdict } from './testing/equality/lane.ts';
import type { Program } from './testing/equality/program.ts';

/** The time limit for a test that hangs. It is long because programs are slow on a busy machine. */
const TIMEOUT_MS = 600_000;

let lane: Lane;
beforeAll(async () => {
  lane = await Lane.open({ env: { ...process.env, TONY_BACKEND: 'cpu' } });
}, TIMEOUT_MS);
afterAll(() => lane.close());

test.each(Object.entries(EXAMPLES))('a program trains as in one process: %s', { timeout: TIMEOUT_MS }, async (_, program) => {
  expect(await lane.run(program)).toBeNull();
});

test('generated programs train as in one process', { timeout: TIMEOUT_MS }, async () => {
  await fc.assert(
    fc.asyncProperty(programs(), async (program: Program) => {
      const verdict: Verdict = await lane.run(program);
      fc.pre(verdict === null || !('skipped' in verdict));
      expect(verdict).toBeNull();
    }),
    { numRuns: 20, maxSkipsPerRun: 10 },
  );
});

test('the comparison detects a program in which a layer is not frozen', { timeout: TIMEOUT_MS }, async () => {
  const program = EXAMPLES['a layer is frozen between two fits'] as Program;
  const [first, ...others] = program.actions;
  const mistaken = { ...program, actions: [first, ...others.filter((action) => action.do !== 'freeze')] } as Program;
  expect(await lane.compare(mistaken, program)).toMatchObject({ what: expect.stringMatching(/^layer 0 /) });
});
