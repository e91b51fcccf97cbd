import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { appendFile, chmod, cp, link, mkdir, mkdtemp, readFile, readlink, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { buffer } from 'node:stream/consumers';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { restoreNames } from '../../platform/files/portable-names.ts';
import { hashFolder, packFolder } from './source-archive.ts';
import { listFolder } from './source-folder.ts';

let root = '';
beforeEach(async () => {
  root = await mkdtemp(path.join(tmpdir(), 'tony-archive-'));
});
afterEach(() => rm(root, { recursive: true, force: true }));

async function identity(folder: string): Promise<{ hash: string; bytes: string }> {
  const listing = await hashFolder(await listFolder(folder, 'source folder'));
  return {
    hash: listing.hash,
    bytes: createHash('sha256')
      .update(await buffer(packFolder(listing)))
      .digest('hex'),
  };
}

/** Unpacks an archive like the NodeManager, but ignores the umask. */
async function unpack(folder: string): Promise<string> {
  const target = await mkdtemp(path.join(root, 'unpacked-'));
  const archive = await buffer(packFolder(await hashFolder(await listFolder(folder, 'source folder'))));
  execFileSync('tar', ['-xpzf', '-', '-C', target], { input: archive });
  return target;
}

test('the same content gives the same hash and the same bytes, in any folder and with any modification times', async () => {
  const first = path.join(root, 'first');
  await mkdir(path.join(first, 'sub'), { recursive: true });
  await writeFile(path.join(first, 'a.ts'), 'a');
  await writeFile(path.join(first, 'sub', 'b.ts'), 'b');
  // A hard link has the same content as a copy.
  await link(path.join(first, 'a.ts'), path.join(first, 'c.ts'));
  const second = path.join(root, 'second');
  await cp(first, second, { recursive: true });
  await utimes(path.join(second, 'a.ts'), 1, 1);
  await chmod(path.join(second, 'a.ts'), 0o600);
  expect(await identity(second)).toEqual(await identity(first));
  const before = await identity(first);
  await chmod(path.join(first, 'a.ts'), 0o755);
  expect((await identity(first)).hash).not.toBe(before.hash);
});

test('tar unpacks an archive with its contents, modes, links, long names and empty folders', async () => {
  const folder = path.join(root, 'source');
  const long = `${'deep/'.repeat(60)}name-${'é'.repeat(60)}.ts`;
  await mkdir(path.join(folder, path.dirname(long)), { recursive: true });
  await mkdir(path.join(folder, 'empty'));
  await writeFile(path.join(folder, long), 'long');
  await writeFile(path.join(folder, 'run.sh'), '#!/bin/sh\n', { mode: 0o755 });
  await writeFile(path.join(folder, '@scope'), Buffer.alloc(100_000, 7));
  await symlink(`./${long}`, path.join(folder, 'to-long'));
  const unpacked = await unpack(folder);
  expect(await readFile(path.join(unpacked, long), 'utf8')).toBe('long');
  expect(await readlink(path.join(unpacked, 'to-long'))).toBe(`./${long}`);
  expect((await stat(path.join(unpacked, 'run.sh'))).mode & 0o777).toBe(0o755);
  expect((await stat(path.join(unpacked, 'empty'))).isDirectory()).toBe(true);
  expect((await hashFolder(await listFolder(unpacked, 'x'))).hash).toBe((await hashFolder(await listFolder(folder, 'x'))).hash);
});

test('packing and unpacking preserves any tree', async () => {
  const name = fc
    .stringMatching(/^[^/\0.][^/\0]{0,30}$/u)
    .filter((text) => Buffer.byteLength(text) < 200 && Buffer.from(text).toString() === text);
  const trees = fc.dictionary(name, fc.uint8Array({ maxLength: 2000 }), { maxKeys: 8, noNullPrototype: true });
  await fc.assert(
    fc.asyncProperty(trees, async (tree) => {
      const folder = await mkdtemp(path.join(root, 'tree-'));
      for (const [file, content] of Object.entries(tree)) {
        await writeFile(path.join(folder, file), content);
      }
      const unpacked = await unpack(folder);
      expect((await hashFolder(await listFolder(unpacked, 'x'))).hash).toBe((await hashFolder(await listFolder(folder, 'x'))).hash);
    }),
    { numRuns: 30 },
  );
});

test.each(['longer', 'shorter', 'other'])('packing fails if a file became %s after it was hashed', async (how) => {
  const folder = path.join(root, 'source');
  await mkdir(folder);
  await writeFile(path.join(folder, 'a'), '12345');
  const listing = await hashFolder(await listFolder(folder, 'source folder'));
  if (how === 'longer') {
    await appendFile(path.join(folder, 'a'), '6');
  } else {
    await writeFile(path.join(folder, 'a'), how === 'shorter' ? '1234' : '54321');
  }
  await expect(buffer(packFolder(listing))).rejects.toMatchObject({
    code: 'SOURCE_UNREADABLE',
    message: expect.stringContaining('changed while'),
  });
});

test('a portable archive contains only ASCII names, from which executors restore the folder', async () => {
  const folder = path.join(root, 'source');
  await mkdir(path.join(folder, 'ümlaut'), { recursive: true });
  await writeFile(path.join(folder, 'ümlaut', '😀.txt'), 'smile');
  await writeFile(path.join(folder, 'plain.txt'), 'plain');
  await symlink('ümlaut/😀.txt', path.join(folder, 'link'));
  await symlink('../plain.txt', path.join(folder, 'ümlaut', 'back'));
  const listing = await listFolder(folder, 'source folder');
  const portable = await hashFolder(listing, { portable: true });
  expect(portable.hash).not.toBe((await hashFolder(listing)).hash);
  const target = await mkdtemp(path.join(root, 'unpacked-'));
  execFileSync('tar', ['-xpzf', '-', '-C', target], { input: await buffer(packFolder(portable)) });
  const names = execFileSync('find', [target, '-printf', '%P\\n'], { encoding: 'utf8' });
  expect(names).not.toMatch(/[\u0080-\u{10ffff}]/u);
  await restoreNames(target);
  expect((await hashFolder(await listFolder(target, 'copy'))).hash).toBe((await hashFolder(listing)).hash);
});
