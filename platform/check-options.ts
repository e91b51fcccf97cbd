import { TonyError } from './errors.ts';
import { suggest } from './suggest.ts';

/** The names of all options of `T`; the compiler ensures that the list is complete. */
export type OptionNames<T> = { readonly [Name in keyof Required<T>]: true };

/**
 * Rejects unknown options, because a misspelled option would otherwise have no effect.
 *
 * @param name name of the function, as the caller writes it.
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

/** Selects the options that another function accepts. */
export function pickOptions<T extends object>(options: T, known: OptionNames<T>): T {
  return Object.fromEntries(Object.entries(options).filter(([name]) => Object.hasOwn(known, name))) as T;
}
