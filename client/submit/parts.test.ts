import { mkdir, mkdtemp, readdir, rm, truncate, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import type { LocalResource } from '../../hadoop/yarn/local-resource.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { fileUri } from '../../storage/uri.ts';
import { hashFolder } from '../job/source-archive.ts';
import { listData } from '../job/source-folder.ts';
import { findData } from '../staging/stage-data.ts';
import { findArchive, type Part, type StagingPlace } from '../staging/staging.ts';
import { type FoundParts, refuseRemoved, stageParts } from './parts.ts';

/** Size of a sparse file (bytes). The file is so large that its upload is still in progress when another upload has failed. */
const LARGE = 1 << 30;

let folder = '';
let place: StagingPlace;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tony-parts-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  place = { storage: new FileStorage(), root: fileUri(path.join(folder, 'root')), onEvent: () => undefined };
});

async function archive(name: string, hash: string, size: number | null): Promise<Part<LocalResource>> {
  const file = path.join(folder, name);
  if (size !== null) {
    await writeFile(file, '');
    await truncate(file, size);
  }
  return findArchive(place, name, { file, hash, size: size ?? 1 });
}

async function staged(): Promise<string[]> {
  const entries = await readdir(path.join(folder, 'root'), { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
}

const none: Omit<FoundParts, 'bundles'> = { source: null, runtime: null, tensorboard: null, pythonEnvironment: null, data: {}, files: {} };

test('a failed upload aborts the other uploads, and none leaves files', async () => {
  const parts = { ...none, bundles: await archive('tony', 'a', LARGE), runtime: await archive('not-there', 'b', null) };
  await expect(stageParts(parts)).rejects.toThrow('ENOENT');
  expect(await staged()).toEqual([]);
});

test('an abort stops all uploads, and none leaves files', async () => {
  const controller = new AbortController();
  const onEvent = (): void => controller.abort(new Error('interrupted'));
  place = { ...place, onEvent };
  const parts = { ...none, bundles: await archive('tony', 'a', LARGE), runtime: await archive('runtime', 'b', LARGE) };
  await expect(stageParts(parts, controller.signal)).rejects.toThrow('interrupted');
  expect(await staged()).toEqual([]);
});

test('a failed upload of one data file aborts all uploads, and none leaves files', async () => {
  const data = path.join(folder, 'data');
  await mkdir(data);
  for (const name of ['a.bin', 'b.bin', 'c.bin']) {
    await writeFile(path.join(data, name), '');
    await truncate(path.join(data, name), name === 'c.bin' ? 1 : 64 << 20);
  }
  const listing = await hashFolder(await listData(data, 'mnist'));
  const part = await findData(place, 'mnist', listing, false);
  await rm(path.join(data, 'c.bin'));
  await expect(stageParts({ ...none, bundles: await archive('tony', 'a', LARGE), data: { mnist: part } })).rejects.toThrow('ENOENT');
  expect(await staged()).toEqual([]);
});

test('refuseRemoved names entries that were removed or replaced after staging', async () => {
  const data = path.join(folder, 'data');
  await mkdir(path.join(data, 'sub'), { recursive: true });
  for (const name of ['a.bin', 'sub/b.bin']) {
    await writeFile(path.join(data, name), name);
  }
  const listing = await hashFolder(await listData(data, 'mnist'));
  const parts = async (): Promise<FoundParts> => ({
    ...none,
    bundles: await archive('tony', 'a', 10),
    data: { mnist: await findData(place, 'mnist', listing, false) },
  });
  await stageParts(await parts());
  const found = await parts();
  const staged = await stageParts(found);
  await refuseRemoved(found, staged);
  await place.storage.remove(`${staged.data.mnist}/sub/b.bin`);
  await expect(refuseRemoved(found, staged)).rejects.toMatchObject({ message: expect.stringMatching(/submission: mnist\.$/) });
  // Simulate another upload of the same file. YARN would reject the changed timestamp.
  await utimes(fileURLToPath(staged.bundles.uri), 1, 1);
  await expect(refuseRemoved(found, staged)).rejects.toMatchObject({
    code: 'STAGING_UNWRITABLE',
    message: 'Files on the cluster were removed or modified during the submission: tony, mnist.',
    hint: expect.stringContaining('Submit the job again'),
  });
});
