import { spawnSync } from 'node:child_process';
import { mkdir, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { findLinkLoop } from './source-folder.ts';

test('links between two folders make a loop', () => {
  const links = new Map([
    ['a/x', 'b'],
    ['b/y', 'a'],
  ]);
  expect(findLinkLoop(['a', 'b'], links)).toEqual({ link: 'b/y', again: { path: 'a/x/y', folder: 'a' } });
});

test('a link to a folder that contains the link makes a loop', () => {
  expect(findLinkLoop(['lib'], new Map([['lib/root', '']]))).toEqual({ link: 'lib/root', again: { path: 'lib/root', folder: '' } });
});

test('a link that leads only to itself is a loop', () => {
  expect(findLinkLoop([], new Map([['self', null]]))).toEqual({ link: 'self', again: null });
});

test('links to files, to folders elsewhere, and to folders that are not uploaded make no loop', () => {
  const links = new Map([
    ['a/file', 'b/file'],
    ['a/other', 'b'],
    ['b/ignored', 'c'],
    ['c/back', 'b'],
  ]);
  expect(findLinkLoop(['a', 'b'], links)).toBeNull();
});

const FOLDERS = ['a', 'a/b', 'a/b/c', 'a/b/c/d', 'e', 'e/f', 'g'];
const link = fc.record({
  folder: fc.constantFrom('', ...FOLDERS),
  name: fc.constantFrom('x', 'y'),
  target: fc.constantFrom('', ...FOLDERS),
});

test('finds a loop exactly if the command of the launch script does', async () => {
  const find = async (folders: readonly string[], links: ReadonlyMap<string, string>) => {
    const container = await mkdtemp(path.join(tmpdir(), 'tony-loop-'));
    const source = path.join(container, 'source');
    await mkdir(source);
    for (const folder of folders) {
      await mkdir(path.join(source, folder));
    }
    for (const [name, target] of links) {
      await symlink(path.join(source, target), path.join(source, name));
    }
    const { status } = spawnSync('find', ['-L', '.', '-maxdepth', '5', '-ls'], { cwd: container, stdio: 'ignore' });
    await rm(container, { recursive: true });
    return status !== 0;
  };
  await fc.assert(
    fc.asyncProperty(fc.array(link, { minLength: 1, maxLength: 4 }), async (all) => {
      const links = new Map(all.map(({ folder, name, target }) => [path.join(folder, name), target]));
      expect(findLinkLoop(FOLDERS, links) !== null).toBe(await find(FOLDERS, links));
    }),
    { numRuns: 100 },
  );
});
