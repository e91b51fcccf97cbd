import { spawnSync } from 'node:child_process';
import path from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { CASES, resultOfSpace, resultOfTable, type SpaceCase, type SweepCases, type TableCase } from '../../training/sweep/sweep-cases.ts';
import { ROOT } from '../command.ts';

/** The rules of sweeps in the Python package are those of TypeScript. */

const SEED = 20_261_128;

function inPython(cases: SweepCases): { readonly spaces: readonly unknown[]; readonly tables: readonly unknown[] } {
  const program = path.join(ROOT, 'integration-tests', 'programs', 'sweep-cases.py');
  const env = { PATH: process.env.PATH ?? '', PYTHONPATH: path.join(ROOT, 'python'), PYTHONDONTWRITEBYTECODE: '1' };
  const { stdout, stderr } = spawnSync('python3', [program], { input: JSON.stringify(cases), env, encoding: 'utf8', maxBuffer: 1 << 28 });
  expect(stderr).toBe('');
  return JSON.parse(stdout) as ReturnType<typeof inPython>;
}

const number = fc.oneof(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.integer(), fc.double({ min: -2, max: 3, noNaN: true }));
const value = fc.oneof(number, fc.string(), fc.boolean(), fc.constant(null), fc.array(fc.oneof(number, fc.string()), { maxLength: 2 }));
const range = fc.record(
  {
    min: number,
    max: number,
    scale: fc.constantFrom('linear', 'log', 'logarithmic'),
    integer: fc.oneof({ weight: 3, arbitrary: fc.boolean() }, { weight: 1, arbitrary: fc.constant(1) }),
    other: fc.constant(1),
  },
  { requiredKeys: ['min', 'max'] },
);
const useful = fc.record(
  { min: fc.double({ min: 0.01, max: 5, noNaN: true }), max: fc.double({ min: 5, max: 99, noNaN: true }) },
  { requiredKeys: ['min', 'max'] },
);
const scaled = fc
  .tuple(useful, fc.constantFrom('linear', 'log'), fc.boolean())
  .map(([ends, scale, integer]) => ({ ...ends, scale, integer }));
const name = fc.stringMatching(/^[a-z]{1,6}$/);
const space = fc.record(
  {
    space: fc.dictionary(name, fc.oneof(fc.array(value, { maxLength: 3 }), range, scaled, scaled), { maxKeys: 4 }),
    trials: fc.integer({ min: 1, max: 5 }),
    seed: fc.maxSafeInteger(),
  },
  { requiredKeys: ['space', 'trials'] },
);

const column = fc.constantFrom('loss', 'rate', 'seconds', 'trial', 'error', 'n', 'toString');
const metric = fc.oneof(number, fc.constantFrom('NaN', 'Infinity', '-Infinity', 0.5, 1));
const trial = fc.record({
  configuration: fc.dictionary(column, value, { maxKeys: 4 }),
  metrics: fc.dictionary(column, metric, { maxKeys: 4 }),
  seconds: fc.oneof(fc.double({ min: 0, max: 1e5, noNaN: true }), fc.constantFrom(0.25, 0.05, 2.5)),
  error: fc.oneof({ weight: 4, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: fc.string({ minLength: 1 }) }),
});
const table = fc.record({
  metric: column,
  mode: fc.constantFrom('max', 'min'),
  trials: fc
    .array(trial, { maxLength: 6 })
    .map((all) => all.map((each, index) => ({ index, name: `trial-0000${index}`, task: 'trial:0', ...each }))),
});

test('Python computes the shared cases as they stand', () => {
  const { spaces, tables } = inPython(CASES);
  expect(spaces).toEqual(CASES.spaces.map(({ result }) => result));
  expect(tables).toEqual(CASES.tables.map(({ result }) => result));
});

test('generated search spaces and tables have the same results in both languages', () => {
  const spaces = fc.sample(space, { seed: SEED, numRuns: 400 }) as unknown as SpaceCase[];
  const tables = fc.sample(table, { seed: SEED, numRuns: 600 }) as unknown as TableCase[];
  const found = inPython({ spaces, tables });
  for (const [at, each] of spaces.entries()) {
    expect({ ...each, result: found.spaces[at] }).toEqual({ ...each, result: resultOfSpace(each) });
  }
  for (const [at, each] of tables.entries()) {
    expect({ ...each, result: found.tables[at] }).toEqual({ ...each, result: resultOfTable(each) });
  }
});
