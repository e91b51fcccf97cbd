import { stat } from 'node:fs/promises';
import { TonyError } from '../../platform/errors.ts';

const OTHERS_WRITE = 0o022;
const ROOT = 0;

/**
 * Throws an error if another user owns a folder or can write to it, because this process or a job runs programs from the folder. Accepts a
 * missing folder, or a folder that belongs to root.
 * @param variable environment variable that selects the folder. The error's hint mentions it.
 * @throws TonyError FOLDER_DENIED
 */
export async function refuseForeignFolder(folder: string, variable: string, user = process.getuid?.()): Promise<void> {
  const found = await stat(folder).catch(() => null);
  if (found === null || user === undefined) {
    return;
  }
  const isForeign = found.uid !== user && found.uid !== ROOT;
  if (!isForeign && (found.mode & OTHERS_WRITE) === 0) {
    return;
  }
  const why = isForeign
    ? `belongs to another user (uid ${found.uid})`
    : `is writable by other users (mode ${(found.mode & 0o777).toString(8)})`;
  const remedy = isForeign ? 'Set' : `Run chmod go-w ${folder}, or set`;
  throw new TonyError('FOLDER_DENIED', `The folder ${folder} ${why}, who could change the programs that your jobs run.`, {
    hint: `${remedy} ${variable} to a folder that only you can write to.`,
  });
}
