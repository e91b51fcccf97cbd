import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { messageOf, TonyError } from '../../../platform/errors.ts';
import type { Shell } from './shells.ts';

/** The scripts are next to this file in the source tree, and next to the bundle in dist/. */
const SCRIPTS: Readonly<Record<Shell, URL>> = {
  bash: new URL('./tony-ts.bash', import.meta.url),
  zsh: new URL('./tony-ts.zsh', import.meta.url),
  fish: new URL('./tony-ts.fish', import.meta.url),
};

/**
 * Returns the completion script for a shell.
 * @throws TonyError BUNDLES_NOT_FOUND
 */
export async function completionScript(shell: Shell): Promise<string> {
  try {
    return await readFile(SCRIPTS[shell], 'utf8');
  } catch (error) {
    throw new TonyError('BUNDLES_NOT_FOUND', `Cannot read ${fileURLToPath(SCRIPTS[shell])}: ${messageOf(error)}.`, { cause: error });
  }
}
