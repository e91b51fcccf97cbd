import { checkOptionValues, isWhole, wholeNumber } from '../../platform/check-options.ts';
import { TonyError } from '../../platform/errors.ts';
import { encodeJsonValue, type Json } from '../../platform/json-value.ts';
import { createRandom } from '../../platform/random.ts';

/** One combination of hyperparameters. */
export type Configuration = Readonly<Record<string, Json>>;

type Choices = readonly Json[];

/**
 * Numbers from `min` to `max`, drawn uniformly on a linear or a logarithmic scale. A logarithmic scale suits learning rates. With `integer`,
 * the whole numbers from `min` to `max`, both included.
 */
export interface Range {
  readonly min: number;
  readonly max: number;
  readonly scale?: 'linear' | 'log';
  readonly integer?: boolean;
}

export type Drawn<Space> = { readonly [Name in keyof Space]: Space[Name] extends readonly (infer Value)[] ? Value : number };

const RANDOM_OPTIONS = { trials: isWhole(1), seed: isWhole(Number.MIN_SAFE_INTEGER) };
const RANGE_OPTIONS = ['min', 'max', 'scale', 'integer'];
/** Significant digits of numbers from a logarithmic range. python/tony/_sweeps/space.py rounds to the same number. */
const LOG_DIGITS = 6;
const RANGE_HINT = 'Write { min: 0.001, max: 0.1, scale: "log" }.';

// python/tony/_sweeps/space.py follows the same rules. sweep-cases.json contains cases that the tests of both languages run.

/**
 * Returns all combinations of the values. The last name varies fastest. `grid({ rate: [0.1, 0.01], units: [32, 64] })` returns four
 * combinations.
 * @throws TonyError USAGE
 */
export function grid<Space extends Readonly<Record<string, Choices>>>(space: Space): Drawn<Space>[] {
  let all: Record<string, Json>[] = [{}];
  for (const [name, values] of Object.entries(space)) {
    checkChoices(name, values);
    all = all.flatMap((before) => values.map((value) => ({ ...before, [name]: value })));
  }
  return all as Drawn<Space>[];
}

/**
 * Draws random combinations: one value from each list, and one number from each range. The same arguments give the same combinations on
 * every machine. If `trials` increases, the first combinations stay the same.
 * @throws TonyError USAGE
 */
export function randomSearch<Space extends Readonly<Record<string, Choices | Range>>>(
  space: Space,
  options: { readonly trials: number; readonly seed?: number },
): Drawn<Space>[] {
  checkOptionValues('randomSearch', options, RANDOM_OPTIONS);
  const trials = wholeNumber('trials', options.trials);
  const { seed = 1 } = options;
  for (const [name, choice] of Object.entries(space)) {
    check(name, choice);
  }
  return Array.from({ length: trials }, (_, trial) => {
    const random = createRandom(seed, trial);
    return Object.fromEntries(Object.entries(space).map(([name, choice]) => [name, draw(choice, random())])) as Drawn<Space>;
  });
}

function isRange(choice: unknown): choice is Range {
  return typeof choice === 'object' && choice !== null && !Array.isArray(choice);
}

function check(name: string, choice: Choices | Range): void {
  if (!isRange(choice)) {
    checkChoices(name, choice);
    return;
  }
  const unknown = Object.keys(choice).find((option) => !RANGE_OPTIONS.includes(option));
  if (unknown !== undefined) {
    throw invalid(name, `has the unknown option ${unknown}`, `The options of a range are ${RANGE_OPTIONS.join(', ')}.`);
  }
  const { min, max, scale, integer } = choice;
  for (const [option, value] of Object.entries({ min, max })) {
    if (!Number.isFinite(value)) {
      throw invalid(name, `needs a finite number as ${option}`);
    }
  }
  if (min > max || !Number.isFinite(max - min)) {
    throw invalid(name, `has the invalid range from ${min} to ${max}`);
  }
  if (scale !== undefined && scale !== 'linear' && scale !== 'log') {
    throw invalid(name, `has the scale ${JSON.stringify(scale)}, but must have "linear" or "log"`);
  }
  if (integer !== undefined && typeof integer !== 'boolean') {
    throw invalid(name, `has ${JSON.stringify(integer)} as integer, but must have true or false`);
  }
  if (integer && Math.ceil(min) > Math.floor(max)) {
    throw invalid(name, `has no whole number between ${min} and ${max}`);
  }
  if (scale === 'log' && min <= 0) {
    throw invalid(name, `starts at ${min} on a logarithmic scale, which requires a value above 0`);
  }
}

function checkChoices(name: string, values: unknown): void {
  if (!Array.isArray(values) || values.length === 0) {
    throw invalid(name, 'needs a list of at least one value');
  }
  for (const [index, value] of values.entries()) {
    encodeJsonValue(value, `value ${index} of ${name}`, 'USAGE');
  }
}

function invalid(name: string, what: string, hint = RANGE_HINT): TonyError {
  return new TonyError('USAGE', `the parameter ${name} ${what}`, { hint });
}

function draw(choice: Choices | Range, random: number): Json {
  if (!isRange(choice)) {
    return choice[Math.floor(random * choice.length)] as Json;
  }
  const { scale = 'linear', integer = false } = choice;
  const [min, max] = integer ? [Math.ceil(choice.min), Math.floor(choice.max)] : [choice.min, choice.max];
  // Whole numbers are drawn by rounding down, so their range ends one above `max`.
  const end = integer ? max + 1 : max;
  if (scale === 'linear') {
    const value = min + (end - min) * random;
    return Math.max(min, Math.min(max, integer ? Math.floor(value) : value));
  }
  const value = min * (end / min) ** random;
  // Logarithms and powers differ in their last digits between languages.
  return Math.max(min, Math.min(max, integer ? Math.floor(value) : Number(value.toPrecision(LOG_DIGITS))));
}
