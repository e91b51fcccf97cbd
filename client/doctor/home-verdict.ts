import { shellWord } from '../../platform/text/shell-word.ts';
import type { Entry } from '../../storage/storage.ts';
import { type CheckResult, doubtful, good } from './diagnosis.ts';

/** Permission bits that the owner of a folder needs to create files in it. */
const OWNER_WRITES = 0o300;

/**
 * Checks whether the user can create the staging folder in the home folder.
 * @param identity describes the user
 * @param home URI of the home folder
 * @param entry the home folder, or null if it does not exist
 */
export function homeVerdict(identity: string, user: string, home: string, entry: Entry | null): CheckResult {
  const [folder, name] = [shellWord(home), shellWord(user)];
  if (entry === null) {
    return doubtful(
      `${identity}; ${home} does not exist`,
      `Ask the cluster admin to create it (hdfs dfs -mkdir ${folder} && hdfs dfs -chown ${name} ${folder}).`,
    );
  }
  if (entry.owner !== user) {
    return doubtful(
      `${identity}; ${home} belongs to ${entry.owner}`,
      `tony-ts creates its staging folder there. Ask the cluster admin to change the owner (hdfs dfs -chown ${name} ${folder}), or choose another folder with --staging.`,
    );
  }
  if ((entry.permission & OWNER_WRITES) !== OWNER_WRITES) {
    return doubtful(
      `${identity}; you cannot write to ${home} (mode ${entry.permission.toString(8)})`,
      `tony-ts creates its staging folder there. Run hdfs dfs -chmod u+rwx ${folder}.`,
    );
  }
  return good(identity);
}
