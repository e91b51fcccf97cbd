import { shellWord } from '../../platform/text/shell-word.ts';
import type { Entry } from '../../storage/storage.ts';
import { bad, type CheckResult, doubtful, good } from './diagnosis.ts';

/** Everyone may create a folder of their own, and the sticky bit protects the folders of others. */
const MODE = 0o1777;
const OTHERS_CREATE = 0o003;
const STICKY = 0o1000;

/**
 * Checks whether all users can write histories to the shared folder, and whether they cannot remove the histories of others.
 * @param folder URI of the folder that `history.dir` specifies, or null if histories are in home folders
 * @param entry the folder, or null if it does not exist
 */
export function historyVerdict(folder: string | null, entry: Entry | null): CheckResult {
  if (folder === null) {
    return good("in each user's home folder");
  }
  const path = shellWord(folder);
  const chmod = `hdfs dfs -chmod ${MODE.toString(8)} ${path}`;
  if (entry === null) {
    return bad(`${folder} does not exist`, `Run hdfs dfs -mkdir -p ${path} && ${chmod} as the HDFS admin, or correct history.dir.`);
  }
  const mode = entry.permission.toString(8);
  const step = `Run ${chmod} as ${entry.owner || 'the HDFS admin'}.`;
  if ((entry.permission & OTHERS_CREATE) !== OTHERS_CREATE) {
    return doubtful(`${folder} has mode ${mode}, so users without a folder in it cannot submit jobs`, step);
  }
  return (entry.permission & STICKY) === 0
    ? doubtful(`${folder} has mode ${mode}, so each user can remove the histories of others`, step)
    : good(folder);
}
