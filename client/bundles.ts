import { stat } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { TonyError } from '../conf/errors.ts';

/** The built programs that run in containers: beside the built command, or in dist/ when this runs from source. */
export async function bundlesFolder(): Promise<string> {
  for (const place of ['./container/', '../dist/container/']) {
    const folder = fileURLToPath(new URL(place, import.meta.url));
    if (await stat(`${folder}/application-master.mjs`).catch(() => null)) return folder;
  }
  throw new TonyError('BUNDLES_MISSING', 'The programs that run in containers have not been built.');
}

/** Node's flags for the ApplicationMaster: it holds little, and a container's memory is paid for. */
export const MASTER_NODE_FLAGS = ['--max-semi-space-size=2', '--max-old-space-size=96'] as const;
