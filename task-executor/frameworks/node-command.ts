import { shellWord } from '../../platform/shell-word.ts';

/** Returns the bash words that run one of the bundles with little memory, and without the Node.js options of the user's program. */
export function nodeCommand(...words: readonly string[]): string {
  return ['env NODE_OPTIONS=', ...[process.execPath, '--max-old-space-size=64', ...words].map(shellWord)].join(' ');
}
