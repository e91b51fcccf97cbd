import { stat } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { TonyError } from '../../platform/errors.ts';

/** The folder of the built programs that run in containers: beside the built command, or in dist/ when running from source. */
export async function bundlesFolder(): Promise<string> {
  for (const place of ['./container/', '../../dist/container/']) {
    const folder = fileURLToPath(new URL(place, import.meta.url));
    if (await stat(`${folder}/application-master.mjs`).catch(() => null)) {
      return folder;
    }
  }
  throw new TonyError('BUNDLES_MISSING', 'The bundles that run in containers are not built.');
}

/** Node.js flags for the ApplicationMaster: it needs little memory, and the queue is charged for the container's memory. */
export const MASTER_NODE_FLAGS = ['--max-semi-space-size=2', '--max-old-space-size=96'] as const;
