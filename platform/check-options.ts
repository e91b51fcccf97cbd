import { TonyError } from './errors.ts';
import { suggest } from './suggest.ts';

/** Names of all options of `T`. The compiler verifies that the list is complete. */
export type OptionNames<T> = { readonly [Name in keyof Required<T>]: true };

/**
 * Rejects unknown options, such as a misspelled name, which would otherwise be ignored silently.
 * @param name function name for the error message.
 * @throws TonyError USAGE
 */
export function checkOptions<T extends object>(name: string, options: T, known: OptionNames<T>): void {
  const names = Object.keys(known);
  for (const option of Object.keys(options)) {
    if (Object.hasOwn(known, option)) {
      continue;
    }
    const meant = suggest(option, names);
    throw new TonyError('USAGE', `${name} has no option ${option}${meant === undefined ? '.' : `; did you mean ${meant}?`}`, {
      hint: `Its options are ${names.join(', ')}.`,
    });
  }
}

/** Returns only the options listed in `known`. */
export function pickOptions<T extends object>(options: T, known: OptionNames<T>): T {
  return Object.fromEntries(Object.entries(options).filter(([name]) => Object.hasOwn(known, name))) as T;
}
