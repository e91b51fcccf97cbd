import type { Answer, Outcome, Program } from './program.ts';

/** A difference between the two sides' results. */
export interface Difference {
  readonly what: string;
  readonly by: number;
}

/** Programs with larger weights are skipped, because they amplify rounding errors. */
const LARGEST_WEIGHT = 50;
/**
 * The tolerance for rounding differences caused by a different order of summation within a dozen steps. The tolerance is relative for
 * numbers above 1.
 */
const FLOAT32 = 5e-5;
/**
 * The tolerance for gradients with 11 bits of precision, relative to how far the weights have moved. The error grows by half a unit in the
 * last place each time a rank forwards a gradient (at most three times). Squares in the optimizer's slots have twice that error, and layers
 * that divide by a standard deviation amplify the error. A gradient that is missing, counted twice or applied to the wrong variable causes
 * an error as large as the gradient.
 */
const FLOAT16 = 8 * 2 ** -11;

/**
 * Compares the results. Returns the difference, null if all sides agree, or the reason for skipping the program: TensorFlow.js rejects it,
 * or it amplifies rounding errors.
 */
export function differenceOf(program: Program, plain: Answer, ranks: readonly Answer[]): Difference | { readonly skipped: string } | null {
  if ('error' in plain) {
    return { skipped: plain.error };
  }
  const expected = plain.outcome;
  const sizes = Object.values(expected.weights).flatMap((values) => values.map(Math.abs));
  if (!sizes.every((size) => size < LARGEST_WEIGHT)) {
    return { skipped: 'the weights grow without bound' };
  }
  const outcomes: Outcome[] = [];
  for (const answer of ranks) {
    if ('error' in answer) {
      return { what: answer.error, by: Number.POSITIVE_INFINITY };
    }
    outcomes.push(answer.outcome);
  }
  const [first] = outcomes as [Outcome];
  const isServed = program.strategy === 'parameter-server';
  const tolerance = program.strategy === 'float16' ? FLOAT16 * Math.max(1, expected.path) : FLOAT32;
  return (
    largest(first.weights, expected.weights, tolerance, () => 0) ??
    // With parameter servers, workers have no slots to compare, because the servers hold them.
    (isServed ? null : largest(first.slots, expected.slots, tolerance, initialSlot)) ??
    largest(Object.fromEntries(first.losses.map(([what, loss]) => [what, [loss]])), lossesOf(expected, first), tolerance, () => 0) ??
    // If ranks start with different weights, weights not yet synchronised by any action may still differ.
    (program.unequalStart ? null : betweenRanks(outcomes))
  );
}

function lossesOf(expected: Outcome, { losses }: Outcome): Record<string, readonly number[]> {
  const compared = new Set(losses.map(([what]) => what));
  return Object.fromEntries(expected.losses.filter(([what]) => compared.has(what)).map(([what, loss]) => [what, [loss]]));
}

/** Returns a slot's value before its first use, for slots that one side has not created yet. */
function initialSlot(name: string): number {
  return name.endsWith('/accumulator') ? 0.2 : 0;
}

type Values = Readonly<Record<string, readonly number[]>>;

function largest(actual: Values, expected: Values, tolerance: number, initial: (name: string) => number): Difference | null {
  let worst: Difference | null = null;
  for (const name of new Set([...Object.keys(actual), ...Object.keys(expected)])) {
    const length = Math.max(actual[name]?.length ?? 0, expected[name]?.length ?? 0);
    for (let index = 0; index < length; index++) {
      const [one, other] = [actual[name]?.[index] ?? initial(name), expected[name]?.[index] ?? initial(name)];
      const by = Math.abs(one - other) / Math.max(1, Math.abs(other));
      if (!(by <= tolerance) && by > (worst?.by ?? 0)) {
        worst = { what: `${name}[${index}] is ${one} instead of ${other}`, by };
      }
      if (Number.isNaN(by)) {
        return { what: `${name}[${index}] is ${one} instead of ${other}`, by };
      }
    }
  }
  return worst;
}

/** Returns a difference if the ranks' values are not bit-identical. */
function betweenRanks([first, ...others]: readonly Outcome[]): Difference | null {
  for (const [index, other] of others.entries()) {
    const difference = largest(other.weights, first?.weights ?? {}, 0, () => 0);
    if (difference !== null) {
      return { ...difference, what: `rank ${index + 1} compared with rank 0: ${difference.what}` };
    }
  }
  return null;
}
