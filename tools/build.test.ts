import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { BUNDLES, bundle } from './build.mjs';

const { exports } = JSON.parse(await readFile(path.resolve(import.meta.dirname, '..', 'package.json'), 'utf8')) as {
  readonly exports: Readonly<Record<string, string | Readonly<Record<string, string>>>>;
};
const libraries = Object.values(exports)
  .flatMap((target) => (typeof target === 'string' ? [target] : Object.values(target)))
  .filter((target) => /\.m?js$/.test(target))
  .map((target) => target.replace('./dist/', ''));

test.each(libraries)('%s has short lines, because Node.js prints the source line of an uncaught error', async (output) => {
  const found = BUNDLES.find((each) => each.output === output);
  if (found === undefined) {
    throw new Error(`${output} is not a bundle`);
  }
  const folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-test-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const built = path.join(folder, 'library.mjs');
  await bundle(found, built);
  const throwing = (await readFile(built, 'utf8')).split('\n').filter((line) => line.includes('new TonyError('));
  expect(throwing.length).toBeGreaterThan(100);
  expect(Math.max(...throwing.map((line) => line.length))).toBeLessThan(2_000);
});
