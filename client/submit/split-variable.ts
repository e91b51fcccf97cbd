import { TonyError } from '../../platform/errors.ts';

/** Splits the assignment of an environment variable, such as `EPOCHS=3`, into its name and value. @throws TonyError USAGE */
export function splitVariable(text: string): [string, string] {
  const equals = text.indexOf('=');
  if (equals < 1) {
    throw new TonyError('USAGE', `--env ${text} is not an assignment.`, { hint: 'Use the format --env EPOCHS=3.' });
  }
  return [text.slice(0, equals), text.slice(equals + 1)];
}
