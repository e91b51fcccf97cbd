import { TonyError } from '../../platform/errors.ts';

/**
 * Splits an override in `--set` syntax into the keys of its path and the text of its value.
 * @throws TonyError USAGE if the text is not an assignment
 */
export function splitAssignment(assignment: string): { readonly keys: readonly string[]; readonly text: string } {
  const equals = assignment.indexOf('=');
  const keys = splitKeys(assignment.slice(0, Math.max(0, equals)));
  if (equals < 1 || keys.some((key) => key === '')) {
    throw new TonyError('USAGE', `--set ${assignment} is not an assignment.`, { hint: 'Use the format --set roles.worker.instances=4.' });
  }
  if (keys.includes('__proto__')) {
    throw new TonyError('USAGE', `--set ${assignment}: \`__proto__\` cannot be a key.`, { hint: 'Choose another name.' });
  }
  return { keys, text: assignment.slice(equals + 1) };
}

function splitKeys(path: string): string[] {
  return path.split(/(?<!\\)\./).map((key) => key.replaceAll('\\.', '.').trim());
}
