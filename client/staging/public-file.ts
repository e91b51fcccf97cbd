import { ifCode } from '../../platform/if-code.ts';
import type { Entry, Storage } from '../../storage/storage.ts';
import { parentUri } from '../../storage/uri.ts';

const READ = 0o4;
const EXECUTE = 0o1;

/**
 * Returns null if all users may read the file. YARN can then localise it once per node for all users. Otherwise returns the reason, for
 * example `hdfs://nn/user/alice has mode 700`. NodeManagers apply the same rules, and fail to localise a public file that violates them.
 */
export async function whyNotPublic(storage: Pick<Storage, 'stat'>, { uri, permission, encrypted }: Entry): Promise<string | null> {
  if (encrypted) {
    return `${uri} is in an encryption zone`;
  }
  if ((permission & READ) === 0) {
    return `${uri} has mode ${permission.toString(8)}`;
  }
  for (let file = uri, folder = parentUri(file); folder !== file; file = folder, folder = parentUri(file)) {
    const entry = await storage.stat(folder).catch(ifCode('ACCESS_DENIED', null));
    if (entry === null) {
      return `${folder} is not accessible`;
    }
    if ((entry.permission & EXECUTE) === 0) {
      return `${folder} has mode ${entry.permission.toString(8)}`;
    }
  }
  return null;
}
