import { readFile, writeFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { REFERENCE_PAGES, REFERENCE_PARTS, withPart } from './reference.ts';

test.each(Object.keys(REFERENCE_PAGES))('docs/%s matches the code (UPDATE=1 regenerates it)', async (name) => {
  const file = new URL(`../docs/${name}`, import.meta.url);
  const wanted = REFERENCE_PAGES[name]?.() ?? '';
  if (process.env.UPDATE === '1') {
    await writeFile(file, wanted);
  }
  expect(await readFile(file, 'utf8')).toBe(wanted);
});

test.each(Object.keys(REFERENCE_PARTS))('the generated part of docs/%s matches the code (UPDATE=1 regenerates it)', async (name) => {
  const file = new URL(`../docs/${name}`, import.meta.url);
  const wanted = withPart(await readFile(file, 'utf8'), REFERENCE_PARTS[name]?.() ?? '');
  if (process.env.UPDATE === '1') {
    await writeFile(file, wanted);
  }
  expect(await readFile(file, 'utf8')).toBe(wanted);
});
