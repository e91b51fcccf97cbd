import { constants } from 'node:fs';
import { chmod, copyFile, lstat, mkdir, readdir, readlink, symlink } from 'node:fs/promises';
import path from 'node:path';

/** Number of concurrent copies. Twice the default number of threads in libuv's pool. */
const COPIES_AT_ONCE = 8;

interface PendingCopy {
  readonly from: string;
  readonly to: string;
}

/**
 * Copies the files, symbolic links and folders in `from` to the existing folder `to`. Keeps permissions, but makes all files and folders
 * writable for the owner, because NodeManagers localise them as read-only.
 */
export async function copyTree(from: string, to: string): Promise<void> {
  const files: PendingCopy[] = [];
  await copyStructure(from, to, files);
  let next = 0;
  const worker = async (): Promise<void> => {
    for (let file = files[next++]; file !== undefined; file = files[next++]) {
      await copyContent(file);
    }
  };
  await Promise.all(Array.from({ length: COPIES_AT_ONCE }, worker));
}

async function copyStructure(from: string, to: string, files: PendingCopy[]): Promise<void> {
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const pending = { from: path.join(from, entry.name), to: path.join(to, entry.name) };
    if (entry.isDirectory()) {
      await mkdir(pending.to, { mode: 0o755 });
      await copyStructure(pending.from, pending.to, files);
    } else if (entry.isSymbolicLink()) {
      await symlink(await readlink(pending.from), pending.to);
    } else {
      files.push(pending);
    }
  }
}

/** Clones the file if the file system supports this. Otherwise, the kernel copies the content. */
async function copyContent({ from, to }: PendingCopy): Promise<void> {
  const [{ mode }] = await Promise.all([lstat(from), copyFile(from, to, constants.COPYFILE_FICLONE | constants.COPYFILE_EXCL)]);
  if ((mode & 0o200) === 0) {
    await chmod(to, (mode & 0o777) | 0o200);
  }
}
