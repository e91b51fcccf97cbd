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
export function wholeNumber(name: string, value: number, least = 1, code: ErrorCode = 'DATA_INVALID'): number {
  if (!Number.isInteger(value) || value < least) {
    throw new TonyError(code, `${name} is ${value}, but must be a whole number of at least ${least}`);
  }
  return value;
}
