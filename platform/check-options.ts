import { TonyError } from './errors.ts';
import { suggest } from './suggest.ts';

/** The names of all options of `T`; the compiler ensures that the list is complete. */
export type OptionNames<T> = { readonly [Name in keyof Required<T>]: true };

/**
 * Rejects unknown options. Without this check, a misspelled option would silently have no effect.
 *
 * @param name the name of the checked function, for the message.
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

/** Returns the options listed in `known`; drops all others. */
export function pickOptions<T extends object>(options: T, known: OptionNames<T>): T {
  return Object.fromEntries(Object.entries(options).filter(([name]) => Object.hasOwn(known, name))) as T;
}
