import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { writeIfAbsent } from './write-if-absent.ts';

test('exactly one of several concurrent callers creates the file, and no temporary file remains', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'tony-create-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const file = path.join(folder, 'owner');
  const texts = Array.from({ length: 20 }, (_, each) => `${each}`.repeat(1000));
  const made = await Promise.all(texts.map((text) => writeIfAbsent(file, text)));
  expect(made.filter((each) => each)).toHaveLength(1);
  expect(await readFile(file, 'utf8')).toBe(texts[made.indexOf(true)]);
  expect(await readdir(folder)).toEqual(['owner']);
  await expect(writeIfAbsent(path.join(folder, 'none', 'owner'), 'a')).rejects.toMatchObject({ code: 'ENOENT' });
});
