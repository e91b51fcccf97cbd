import type { SiteConfig } from '../../conf/resolve/site.ts';
import { shellWord } from '../../platform/text/shell-word.ts';
import { clusterSiteUri } from '../../storage/cluster-site.ts';
import type { Entry, Storage } from '../../storage/storage.ts';
import { parentUri } from '../../storage/uri.ts';
import { type CheckResult, doubtful, good } from './diagnosis.ts';

const OTHERS_WRITE = 0o002;
/** In a sticky folder, users can rename and remove only their own entries. */
const STICKY = 0o1000;

/**
 * Checks whether the keys of the site file take effect where the file is, and whether only the admin can change the file on HDFS, from
 * which ApplicationMasters read the quotas.
 * @param defaultFs the cluster's default file system, on HDFS
 */
export async function siteVerdict(site: SiteConfig, storage: Pick<Storage, 'stat'>, defaultFs: string): Promise<CheckResult> {
  const shared = clusterSiteUri(defaultFs);
  const entry = await storage.stat(shared);
  const exposed = entry === null ? null : await exposedPlace(storage, entry);
  if (exposed !== null) {
    return doubtful(
      `every user can change ${shared}, because ${exposed.uri === shared ? 'it' : exposed.uri} has mode ${exposed.permission.toString(8)}`,
      `Run hdfs dfs -chmod o-w ${shellWord(exposed.uri)} as its owner. Until then, users can lift their own quotas.`,
    );
  }
  if (site.from === null) {
    return good('no site file: the defaults apply');
  }
  return site.from === shared ? sharedFileVerdict(site, shared) : localFileVerdict(site, site.from, entry === null ? shared : null);
}

/** Returns the file, or a folder above it, if its mode lets every user change or replace the file. Otherwise, returns null. */
async function exposedPlace(storage: Pick<Storage, 'stat'>, file: Entry): Promise<Entry | null> {
  if ((file.permission & OTHERS_WRITE) !== 0) {
    return file;
  }
  for (let uri = parentUri(file.uri), below = file.uri; uri !== below; below = uri, uri = parentUri(uri)) {
    const folder = await storage.stat(uri);
    if (folder !== null && (folder.permission & (OTHERS_WRITE | STICKY)) === OTHERS_WRITE) {
      return folder;
    }
  }
  return null;
}

function sharedFileVerdict({ tls, storage, kerberos }: SiteConfig, from: string): CheckResult {
  const keys = Object.entries({ 'tls.ca': tls.ca, 'storage.gateway': storage.gateway, kerberos });
  const local = keys.flatMap(([key, value]) => (value === null ? [] : [key])).join(' and ');
  return local === ''
    ? good(from)
    : doubtful(`${from}: ${local} has no effect there`, `Put ${local} into the tony-site.yaml in HADOOP_CONF_DIR on the users' machines.`);
}

/** @param missing URI of the file on HDFS if it does not exist */
function localFileVerdict({ quotas, final }: SiteConfig, from: string, missing: string | null): CheckResult {
  const { over: _, ...limits } = quotas;
  const keys = [
    ...(Object.values(limits).some((entries) => Object.keys(entries).length > 0) ? ['quotas'] : []),
    ...(Object.keys(final).length > 0 ? ['final'] : []),
  ];
  return missing === null || keys.length === 0
    ? good(from)
    : doubtful(
        `${from}: only clients apply ${keys.join(' and ')}, because ${missing} does not exist`,
        `Copy the file to HDFS, where ApplicationMasters read it: hdfs dfs -put ${shellWord(from)} ${shellWord(missing)}`,
      );
}
