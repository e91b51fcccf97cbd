import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { makeFolders } from './make-folders.ts';

let root = '';
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'tony-folders-'));
});
afterEach(() => rm(root, { recursive: true, force: true }));

test('makes what is missing, with its mode, and answers the topmost folder made', async () => {
  expect(await makeFolders(join(root, 'a', 'b', 'c'), 0o700)).toBe(join(root, 'a'));
  expect((await stat(join(root, 'a', 'b'))).mode & 0o777).toBe(0o700);
  expect(await makeFolders(join(root, 'a', 'b', 'c'))).toBeUndefined();
  expect(await makeFolders(join(root, 'a', 'd'))).toBe(join(root, 'a', 'd'));
});

test('several processes may make the same folders at once', async () => {
  const folder = join(root, 'x', 'y', 'z');
  await Promise.all(Array.from({ length: 20 }, () => makeFolders(folder)));
  expect((await stat(folder)).isDirectory()).toBe(true);
});

test('a file in the way is an error', async () => {
  await writeFile(join(root, 'file'), '');
  await expect(makeFolders(join(root, 'file'))).rejects.toThrow('EEXIST');
  await expect(makeFolders(join(root, 'file', 'below'))).rejects.toThrow('ENOTDIR');
});

test.runIf(process.platform === 'linux')('ends with an error where the file system makes no folders', async () => {
  await expect(makeFolders('/proc/1/no/such/folder')).rejects.toThrow('ENOENT');
});
