import { type ErrorCode, TonyError } from './errors.ts';
import { suggest } from './text/suggest.ts';

/** Names of all options of `T`. The compiler verifies that the list is complete. */
export type OptionNames<T> = { readonly [Name in keyof Required<T>]: true };

/**
 * Rejects unknown options. Otherwise, an option with a misspelled name would have no effect.
 * @param name function name for the error message
 * @param instead advice for options that similar functions in other libraries have, keyed by option
 * @throws TonyError USAGE
 */
export function checkOptions<T extends object>(
  name: string,
  options: T,
  known: OptionNames<T>,
  instead: Readonly<Record<string, string>> = {},
): void {
  const names = Object.keys(known);
  for (const option of Object.keys(options)) {
    if (Object.hasOwn(known, option)) {
      continue;
    }
    const meant = suggest(option, names);
    const advice = Object.hasOwn(instead, option) ? instead[option] : meant && `did you mean ${meant}?`;
    throw new TonyError('USAGE', `${name} has no option ${option}${advice === undefined ? '.' : `; ${advice}`}`, {
      hint: `Its options are ${names.join(', ')}.`,
    });
  }
}

/** Returns only the options listed in `known`. */
export function pickOptions<T extends object>(options: T, known: OptionNames<T>): T {
  return Object.fromEntries(Object.entries(options).filter(([name]) => Object.hasOwn(known, name))) as T;
}

/**
 * Returns the value of an option.
 * @throws TonyError with `code` if the value is not a whole number or is less than `least`
 */
export function wholeNumber(name: string, value: number, least = 1, code: ErrorCode = 'USAGE'): number {
  if (!Number.isInteger(value) || value < least) {
    throw new TonyError(code, `${name} is ${written(value)}, but must be a whole number of at least ${least}`);
  }
  return value;
}

/**
 * Checks the value of an option. Returns what the value must be if it is invalid, or null if it is valid. `name` is the option's name in
 * messages, such as `columnConfigs of csv`. A rule for an object throws a TonyError USAGE for an invalid value within it.
 */
export type OptionRule = (value: unknown, name: string) => string | null;

/** The rules of all options of `T`. The compiler verifies that the table is complete. */
export type OptionRules<T> = { readonly [Name in keyof Required<T>]: OptionRule };

type ValueRule = (value: unknown) => string | null;

const rule =
  (isValid: (value: unknown) => boolean, expected: string): ValueRule =>
  (value) =>
    isValid(value) ? null : expected;

export const isFlag = rule((value) => typeof value === 'boolean', 'true or false');
export const isText = rule((value) => typeof value === 'string', 'a string');
export const isFunction = rule((value) => typeof value === 'function', 'a function');
export const isObject = rule((value) => typeof value === 'object' && value !== null && !Array.isArray(value), 'an object');
export const isTexts = rule((value) => Array.isArray(value) && value.every((each) => typeof each === 'string'), 'a list of strings');
export const isFiniteNumber = rule((value) => Number.isFinite(value), 'a number');
export const isAnything: OptionRule = () => null;
export const isPositiveNumber = rule((value) => Number.isFinite(value) && (value as number) > 0, 'a number above 0');
export const isNotNegative = rule((value) => Number.isFinite(value) && (value as number) >= 0, '0 or a positive number');
export const isFunctionOrNumber = rule((value) => typeof value === 'function' || Number.isFinite(value), 'a number or a function');
export const isTextNotEmpty = rule((value) => typeof value === 'string' && value !== '', 'a string that is not empty');

export function isWhole(least: number): ValueRule {
  return rule((value) => Number.isSafeInteger(value) && (value as number) >= least, `a whole number of at least ${least}`);
}

/** The rule for a maximum. Infinity means that there is none. */
export function isWholeOrInfinite(least: number): ValueRule {
  return rule(
    (value) => value === Number.POSITIVE_INFINITY || (Number.isSafeInteger(value) && (value as number) >= least),
    `a whole number of at least ${least}`,
  );
}

/** The rule for an option that is an object with options of its own. */
export function isOptions<T extends object>(rules: OptionRules<T>): OptionRule {
  return (value, name) => {
    const expected = isObject(value);
    if (expected === null) {
      checkOptionValues(name, value as T, rules);
    }
    return expected;
  };
}

/** The rule for an object whose keys the program chooses, and whose values all obey one rule. */
export function isRecordOf(rule: OptionRule): OptionRule {
  return (value, name) => {
    const expected = isObject(value);
    if (expected === null) {
      checkValues(name, value as object, () => rule);
    }
    return expected;
  };
}

export function isOneOf(...values: readonly (string | number)[]): ValueRule {
  return rule((value) => values.includes(value as string | number), values.map((each) => JSON.stringify(each)).join(' or '));
}

/**
 * Rejects unknown options, and options with invalid values. An option that is undefined counts as missing.
 * @param instead see `checkOptions`
 * @throws TonyError USAGE
 */
export function checkOptionValues<T extends object>(
  name: string,
  options: T,
  rules: OptionRules<T>,
  instead: Readonly<Record<string, string>> = {},
): void {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw new TonyError('USAGE', `the options of ${name} are ${written(options)}, but must be an object`);
  }
  checkOptions(name, options, Object.fromEntries(Object.keys(rules).map((option) => [option, true])) as OptionNames<T>, instead);
  checkValues(name, options, (option) => (rules as Readonly<Record<string, OptionRule>>)[option]);
}

function checkValues(name: string, options: object, ruleOf: (option: string) => OptionRule | undefined): void {
  for (const [option, value] of Object.entries(options)) {
    const expected = value === undefined ? null : ruleOf(option)?.(value, `${option} of ${name}`);
    if (expected) {
      throw new TonyError('USAGE', `${option} of ${name} is ${written(value)}, but must be ${expected}`);
    }
  }
}

/** Returns the value as the program may have written it. Unlike `describeValue` in text/, does not name its type. */
function written(value: unknown): string {
  if (typeof value === 'object' && value !== null) {
    return Array.isArray(value) ? 'a list' : 'an object';
  }
  return typeof value === 'string' ? JSON.stringify(value) : String(value);
}
