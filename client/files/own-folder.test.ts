import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { refuseForeignFolder } from './own-folder.ts';

let folder = '';
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tony-own-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

test('accepts a folder of this user that others can read, and a missing folder', async () => {
  await chmod(folder, 0o755);
  await refuseForeignFolder(folder, 'TONY_LOCAL_DIR');
  await refuseForeignFolder(path.join(folder, 'missing'), 'TONY_LOCAL_DIR');
});

test.each([0o770, 0o707, 0o1777])('rejects a folder with mode %o, to which others can write', async (mode) => {
  await chmod(folder, mode);
  await expect(refuseForeignFolder(folder, 'TONY_LOCAL_DIR')).rejects.toMatchObject({
    code: 'FOLDER_DENIED',
    message: expect.stringContaining('is writable by other users'),
    hint: `Run chmod go-w ${folder}, or set TONY_LOCAL_DIR to a folder that only you can write to.`,
  });
});

test.skipIf(process.getuid?.() !== 0)('rejects a folder of another user, but not of root', async () => {
  const { chown } = await import('node:fs/promises');
  await refuseForeignFolder(folder, 'TONY_CACHE_DIR', 4711);
  await chown(folder, 4712, 4712);
  await expect(refuseForeignFolder(folder, 'TONY_CACHE_DIR', 4711)).rejects.toMatchObject({
    code: 'FOLDER_DENIED',
    hint: 'Set TONY_CACHE_DIR to a folder that only you can write to.',
  });
});
