import { readFile, writeFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { REFERENCE_PAGES, REFERENCE_PARTS, withPart } from './reference.ts';

test.each(Object.keys(REFERENCE_PAGES))('docs/%s says what the code says (UPDATE=1 writes it anew)', async (name) => {
  const file = new URL(`../docs/${name}`, import.meta.url);
  const wanted = REFERENCE_PAGES[name]?.() ?? '';
  if (process.env.UPDATE === '1') await writeFile(file, wanted);
  expect(await readFile(file, 'utf8')).toBe(wanted);
});

test.each(Object.keys(REFERENCE_PARTS))('a part of docs/%s says what the code says (UPDATE=1 writes it anew)', async (name) => {
  const file = new URL(`../docs/${name}`, import.meta.url);
  const wanted = withPart(await readFile(file, 'utf8'), REFERENCE_PARTS[name]?.() ?? '');
  if (process.env.UPDATE === '1') await writeFile(file, wanted);
  expect(await readFile(file, 'utf8')).toBe(wanted);
});
