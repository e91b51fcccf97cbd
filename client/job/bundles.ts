import { stat } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { TonyError } from '../../platform/errors.ts';

/** Returns the folder of the bundles that run in containers: beside the built command, or dist/ when running from source. */
export async function bundlesFolder(): Promise<string> {
  for (const place of ['./container/', '../../dist/container/']) {
    const folder = fileURLToPath(new URL(place, import.meta.url));
    if (await stat(`${folder}/application-master.mjs`).catch(() => null)) {
      return folder;
    }
  }
  throw new TonyError('BUNDLES_MISSING', 'The bundles that run in containers have not been built.');
}

/** Node.js flags for the ApplicationMaster. They keep its memory small, because the memory of its container counts towards the queue. */
export const MASTER_NODE_FLAGS = ['--max-semi-space-size=2', '--max-old-space-size=96'] as const;
