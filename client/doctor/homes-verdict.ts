import { firstNames } from '../../platform/text/first-names.ts';
import { shellWord } from '../../platform/text/shell-word.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import { isUserName } from '../records/history-place.ts';
import { type CheckResult, doubtful, good } from './diagnosis.ts';

const AT_ONCE = 16;
const MOST_USERS = 1_000;
const MOST_NAMED = 5;

/**
 * Checks whether the users in the site file have home folders on HDFS, where jobs store their files.
 * @param parent URI of the folder that contains the home folders
 */
export async function homesVerdict(storage: Pick<Storage, 'stat'>, parent: string, users: readonly string[]): Promise<CheckResult> {
  const named = users.filter((user) => user !== '*' && isUserName(user)).slice(0, MOST_USERS);
  if (named.length === 0) {
    return good('the site file lists no users');
  }
  const missing: string[] = [];
  for (let at = 0; at < named.length; at += AT_ONCE) {
    const batch = named.slice(at, at + AT_ONCE);
    const homes = await Promise.all(batch.map((user) => storage.stat(joinUri(parent, user))));
    missing.push(...batch.filter((_, index) => homes[index] === null));
  }
  const [first] = missing;
  if (first === undefined) {
    return good(
      named.length === 1
        ? `${named[0]}, the only user in quotas.users of the site file, has a home folder`
        : `all ${named.length} users in quotas.users of the site file have home folders`,
    );
  }
  const home = shellWord(joinUri(parent, first));
  return doubtful(
    `users in quotas.users of the site file without a home folder: ${firstNames(missing, MOST_NAMED)}`,
    `Their jobs cannot create a staging folder. As the HDFS admin, run hdfs dfs -mkdir ${home} && hdfs dfs -chown ${shellWord(first)} ${home}`,
  );
}
