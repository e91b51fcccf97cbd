import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { messageOf, TonyError } from '../../conf/errors.ts';
import type { Shell } from './shells.ts';

/** Here in the sources, and beside the bundle in dist/. */
const SCRIPTS: Readonly<Record<Shell, URL>> = {
  bash: new URL('./tony-ts.bash', import.meta.url),
  zsh: new URL('./tony-ts.zsh', import.meta.url),
  fish: new URL('./tony-ts.fish', import.meta.url),
};

/**
 * The script that makes a shell complete the words of `tony-ts`.
 * @throws TonyError BUNDLES_MISSING
 */
export async function completionScript(shell: Shell): Promise<string> {
  try {
    return await readFile(SCRIPTS[shell], 'utf8');
  } catch (error) {
    throw new TonyError('BUNDLES_MISSING', `${fileURLToPath(SCRIPTS[shell])} cannot be read: ${messageOf(error)}.`, { cause: error });
  }
}
