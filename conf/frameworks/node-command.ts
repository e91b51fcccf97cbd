import { shellWord } from '../../platform/text/shell-word.ts';

/** Returns a bash command that runs one of the bundles with low memory usage and without the NODE_OPTIONS that the user's program has. */
export function nodeCommand(...words: readonly string[]): string {
  return ['env NODE_OPTIONS=', ...[process.execPath, '--max-old-space-size=64', ...words].map(shellWord)].join(' ');
}
