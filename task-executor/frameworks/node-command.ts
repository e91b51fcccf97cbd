import { shellWord } from '../../platform/shell-word.ts';

/** Returns a bash command that runs one of the bundles with little memory and without the NODE_OPTIONS of the user's program. */
export function nodeCommand(...words: readonly string[]): string {
  return ['env NODE_OPTIONS=', ...[process.execPath, '--max-old-space-size=64', ...words].map(shellWord)].join(' ');
}
