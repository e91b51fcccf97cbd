import { wholeNumber } from '../../platform/check-options.ts';
import { TonyError } from '../../platform/errors.ts';
import { createRandom } from '../process/random.ts';
import type { HyperparameterValue } from '../summary/summary-hparams.ts';

/** One combination of hyperparameters. */
export type Configuration = Readonly<Record<string, HyperparameterValue>>;

type Choices = readonly HyperparameterValue[];

/**
 * Numbers (or integers) from `min` to `max`, drawn uniformly on a linear or a logarithmic scale. A logarithmic scale suits learning rates.
 */
export interface Range {
  readonly min: number;
  readonly max: number;
  readonly scale?: 'linear' | 'log';
  readonly integer?: boolean;
}

export type Drawn<Space> = { readonly [Name in keyof Space]: Space[Name] extends readonly (infer Value)[] ? Value : number };

/**
 * Returns all combinations of the values. The last name varies fastest. `grid({ rate: [0.1, 0.01], units: [32, 64] })` returns four
 * combinations.
 */
export function grid<Space extends Readonly<Record<string, Choices>>>(space: Space): Drawn<Space>[] {
  let all: Record<string, HyperparameterValue>[] = [{}];
  for (const [name, values] of Object.entries(space)) {
    if (values.length === 0) {
      throw new TonyError('USAGE', `the grid has no values for ${name}`);
    }
    all = all.flatMap((before) => values.map((value) => ({ ...before, [name]: value })));
  }
  return all as Drawn<Space>[];
}

/**
 * Draws random combinations: one value from each list, and one number from each range. The same arguments give the same combinations on
 * every machine. If `trials` increases, the first combinations stay the same.
 */
export function randomSearch<Space extends Readonly<Record<string, Choices | Range>>>(
  space: Space,
  options: { readonly trials: number; readonly seed?: number },
): Drawn<Space>[] {
  const { seed = 1 } = options;
  const trials = wholeNumber('trials', options.trials, 1, 'USAGE');
  for (const [name, choice] of Object.entries(space)) {
    check(name, choice);
  }
  return Array.from({ length: trials }, (_, trial) => {
    const random = createRandom(seed, trial);
    return Object.fromEntries(Object.entries(space).map(([name, choice]) => [name, draw(choice, random())])) as Drawn<Space>;
  });
}

function isChoices(choice: Choices | Range): choice is Choices {
  return Array.isArray(choice);
}

function check(name: string, choice: Choices | Range): void {
  if (isChoices(choice)) {
    if (choice.length === 0) {
      throw new TonyError('USAGE', `the space has no values for ${name}`);
    }
    return;
  }
  const { min, max, scale } = choice;
  if (!(Number.isFinite(min) && Number.isFinite(max) && min <= max)) {
    throw new TonyError('USAGE', `${name} has the invalid range ${min} to ${max}`);
  }
  if (scale === 'log' && min <= 0) {
    throw new TonyError('USAGE', `${name} starts at ${min} on a logarithmic scale, which requires a value above 0`);
  }
}

function draw(choice: Choices | Range, random: number): HyperparameterValue {
  if (isChoices(choice)) {
    return choice[Math.floor(random * choice.length)] as HyperparameterValue;
  }
  const { min, max, scale = 'linear', integer = false } = choice;
  // The result is rounded down, so the range ends one above `max`.
  const end = integer ? max + 1 : max;
  const value = scale === 'log' ? min * (end / min) ** random : min + (end - min) * random;
  return integer ? Math.min(max, Math.floor(value)) : value;
}
