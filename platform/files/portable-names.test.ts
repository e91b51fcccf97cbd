import { mkdir, mkdtemp, readdir, readFile, readlink, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { isPortable, NAMES_FILE, PortableNames, restoreNames } from './portable-names.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-names-'));
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

test('every path becomes portable, and different paths stay different', () => {
  const name = fc
    .oneof(fc.string({ unit: 'grapheme', minLength: 1 }), fc.constantFrom('.tony-ts-name-0', '.tony-ts-name-1', NAMES_FILE, 'a'))
    .filter((each) => !/[/\0]/.test(each));
  fc.assert(
    fc.property(fc.uniqueArray(fc.array(name, { minLength: 1, maxLength: 4 }).map((parts) => parts.join('/'))), (paths) => {
      const portable = new PortableNames();
      const encoded = paths.map((each) => portable.pathOf(each));
      expect(new Set(encoded).size).toBe(paths.length);
      for (const each of encoded) {
        expect(each).not.toMatch(/[\u0080-\u{10ffff}]/u);
      }
      expect(portable.names.some(isPortable)).toBe(false);
    }),
  );
});

test('restores names at every level, and links to such names', async () => {
  const paths = ['plain.txt', 'ümlaut/😀.txt', 'ümlaut/日本/x', 'ü😀', '.tony-ts-name-0'];
  const portable = new PortableNames();
  for (const each of paths) {
    const place = path.join(folder, portable.pathOf(each));
    await mkdir(path.dirname(place), { recursive: true });
    await writeFile(place, each);
  }
  await symlink('plain.txt', path.join(folder, portable.pathOf('lïnk')));
  const links = [{ path: portable.pathOf('ümlaut/to'), target: '../ü😀' }];
  await writeFile(path.join(folder, NAMES_FILE), JSON.stringify({ names: portable.names, links }));
  await restoreNames(folder);
  for (const each of paths) {
    expect(await readFile(path.join(folder, each), 'utf8')).toBe(each);
  }
  expect(await readlink(path.join(folder, 'lïnk'))).toBe('plain.txt');
  expect(await readFile(path.join(folder, 'ümlaut/to'), 'utf8')).toBe('ü😀');
  expect((await readdir(folder)).sort()).toEqual(['.tony-ts-name-0', 'lïnk', 'plain.txt', 'ü😀', 'ümlaut'].sort());
});

test('leaves a folder without a list of names alone', async () => {
  await writeFile(path.join(folder, '.tony-ts-name-0'), '');
  await restoreNames(folder);
  expect(await readdir(folder)).toEqual(['.tony-ts-name-0']);
});
