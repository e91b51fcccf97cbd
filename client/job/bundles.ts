import { stat } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { TonyError } from '../../platform/errors.ts';

/** Maximum number of ApplicationMaster attempts. A second attempt lets the job survive the loss of a node. */
export const MASTER_ATTEMPTS = 2;

/**
 * Returns the folder that contains the bundles for containers. The folder is next to the bundled command. When the command runs from
 * source, the folder is in dist/.
 */
export async function bundlesFolder(): Promise<string> {
  for (const place of ['./container/', '../../dist/container/']) {
    const folder = fileURLToPath(new URL(place, import.meta.url));
    if (await stat(`${folder}/application-master.mjs`).catch(() => null)) {
      return folder;
    }
  }
  throw new TonyError('BUNDLES_NOT_FOUND', 'The bundles that run in containers have not been built.');
}

/** Node.js flags that limit the ApplicationMaster's memory, because its container counts against the queue's capacity. */
export const MASTER_NODE_FLAGS = ['--max-semi-space-size=2', '--max-old-space-size=96'] as const;
