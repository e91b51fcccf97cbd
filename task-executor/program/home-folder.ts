import { constants } from 'node:fs';
import { access, mkdir } from 'node:fs/promises';
import path from 'node:path';
import { CONTAINER_LAYOUT } from '../../conf/job.ts';

/**
 * Returns the home folder for the user's program. YARN sets HOME to `/home/` (`yarn.nodemanager.user-home-dir`), where users cannot create
 * files. Programs that store settings or caches in HOME would fail, so they get a home folder inside the container.
 * @param container absolute path of the container's working directory
 * @param home value of HOME in the container
 */
export async function homeFolder(container: string, home: string): Promise<string> {
  try {
    await access(home, constants.W_OK | constants.X_OK);
    return home;
  } catch {
    const own = path.join(container, CONTAINER_LAYOUT.home);
    await mkdir(own, { recursive: true, mode: 0o700 });
    return own;
  }
}
