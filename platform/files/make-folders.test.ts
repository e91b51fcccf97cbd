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

test('creates missing folders with the given mode, and returns the topmost one created', async () => {
  expect(await makeFolders(join(root, 'a', 'b', 'c'), 0o700)).toBe(join(root, 'a'));
  expect((await stat(join(root, 'a', 'b'))).mode & 0o777).toBe(0o700);
  expect(await makeFolders(join(root, 'a', 'b', 'c'))).toBeUndefined();
  expect(await makeFolders(join(root, 'a', 'd'))).toBe(join(root, 'a', 'd'));
});

test('concurrent calls may create the same folders', async () => {
  const folder = join(root, 'x', 'y', 'z');
  await Promise.all(Array.from({ length: 20 }, () => makeFolders(folder)));
  expect((await stat(folder)).isDirectory()).toBe(true);
});

test('rejects a path that contains a file', async () => {
  await writeFile(join(root, 'file'), '');
  await expect(makeFolders(join(root, 'file'))).rejects.toThrow('EEXIST');
  await expect(makeFolders(join(root, 'file', 'below'))).rejects.toThrow('ENOTDIR');
});

test.runIf(process.platform === 'linux')('rejects a path where the file system creates no folders', async () => {
  await expect(makeFolders('/proc/1/no/such/folder')).rejects.toThrow('ENOENT');
});
