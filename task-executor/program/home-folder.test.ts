import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { homeFolder } from './task-folder.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'home-folder-'));
});
afterAll(() => rm(folder, { recursive: true }));

it('keeps a home folder that is writable', async () => {
  expect(await homeFolder('/unused', folder)).toBe(folder);
});

it.each(['/dev/null', '/nonexistent'])('replaces the home folder %s with a private folder of the container', async (home) => {
  const own = path.join(folder, 'home');
  expect(await homeFolder(folder, home)).toBe(own);
  expect((await stat(own)).mode & 0o777).toBe(0o700);
});

// root may write to every folder.
it.skipIf(process.getuid?.() === 0)('replaces a home folder without write permission', async () => {
  expect(await homeFolder(folder, '/')).toBe(path.join(folder, 'home'));
});
