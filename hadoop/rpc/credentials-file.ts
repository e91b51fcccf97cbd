import { randomBytes } from 'node:crypto';
import { rename, rm, writeFile } from 'node:fs/promises';
import { type Credentials, encodeCredentials } from './credentials.ts';

/**
 * Writes credentials to a file that only this user can read. Replaces an existing file atomically, because other processes may be reading
 * it.
 */
export async function writeCredentials(file: string, credentials: Credentials): Promise<void> {
  const unfinished = `${file}.${randomBytes(8).toString('hex')}`;
  try {
    await writeFile(unfinished, encodeCredentials(credentials), { mode: 0o600, flag: 'wx' });
    await rename(unfinished, file);
  } finally {
    await rm(unfinished, { force: true });
  }
}
