import { readdirSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readdir, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { Secret } from '../../platform/secret.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { fileUri } from '../../storage/uri.ts';
import { hashFolder } from '../job/source-archive.ts';
import { listData, listFolder } from '../job/source-folder.ts';
import { findData } from './stage-data.ts';
import {
  findArchive,
  findFolder,
  isStagingThere,
  openStaging,
  type StagingEvent,
  type StagingPlace,
  stageJob,
  stageKeytab,
} from './staging.ts';

let folder = '';
let events: StagingEvent[] = [];
let place: StagingPlace;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tony-staging-'));
  events = [];
  place = { storage: new FileStorage(), root: fileUri(path.join(folder, 'root')), onEvent: (event) => events.push(event) };
  await mkdir(path.join(folder, 'source', 'sub'), { recursive: true });
  await writeFile(path.join(folder, 'source', 'sub', 'train.ts'), 'train()');
});
afterEach(() => rm(folder, { recursive: true, force: true }));

/** Owner of this test's files according to the storage. */
const me = async () => (await place.storage.stat(fileUri(folder)))?.owner ?? '';
const source = async () => hashFolder(await listFolder(path.join(folder, 'source'), 'source folder'));

describe('an archive of a folder', () => {
  test('is uploaded once; a second search finds it unchanged, with the same timestamp', async () => {
    const first = await (await findFolder(place, 'source', await source())).stage();
    expect(first).toMatchObject({ name: 'source', type: 'archive', visibility: 'private' });
    expect(events).toEqual([
      { type: 'upload', name: 'source', sent: 0, total: first.size },
      { type: 'upload', name: 'source', sent: first.size, total: first.size },
    ]);
    events.length = 0;
    expect(await (await findFolder(place, 'source', await source())).stage()).toEqual(first);
    expect(events).toEqual([{ type: 'unchanged', name: 'source', bytes: first.size }]);
    const file = await stat(fileURLToPath(first.uri));
    expect(file.mode & 0o777).toBe(0o600);
    expect((await stat(path.dirname(fileURLToPath(first.uri)))).mode & 0o777).toBe(0o700);
  });

  test('is stored elsewhere when its content changes, and replaced when it is damaged', async () => {
    const first = await (await findFolder(place, 'source', await source())).stage();
    await truncate(fileURLToPath(first.uri), 10);
    const again = await (await findFolder(place, 'source', await source())).stage();
    expect(again).toMatchObject({ uri: first.uri, size: first.size });
    expect((await stat(fileURLToPath(again.uri))).size).toBe(first.size);
    await writeFile(path.join(folder, 'source', 'sub', 'train.ts'), 'train2()');
    expect((await (await findFolder(place, 'source', await source())).stage()).uri).not.toBe(first.uri);
  });
});

test('a truncated file is uploaded again', async () => {
  await writeFile(path.join(folder, 'runtime.tar.gz'), 'abcdef');
  const archive = { file: path.join(folder, 'runtime.tar.gz'), hash: 'f'.repeat(64), size: 6 };
  const first = await findArchive(place, 'runtime', archive).then((part) => part.stage());
  await truncate(fileURLToPath(first.uri), 3);
  events.length = 0;
  expect((await findArchive(place, 'runtime', archive).then((part) => part.stage())).size).toBe(6);
  expect(events.at(-1)).toEqual({ type: 'upload', name: 'runtime', sent: 6, total: 6 });
  events.length = 0;
  await findArchive(place, 'runtime', archive).then((part) => part.stage());
  expect(events).toEqual([{ type: 'unchanged', name: 'runtime', bytes: 6 }]);
});

describe('a search for parts', () => {
  test('returns their sizes and future URIs, and writes nothing', async () => {
    expect(await isStagingThere(place, await me())).toBe(false);
    await writeFile(path.join(folder, 'runtime.tar.gz'), 'abcdef');
    await mkdir(path.join(folder, 'data'));
    await writeFile(path.join(folder, 'data', 'a.bin'), Buffer.alloc(1000));
    const look = async () => {
      const data = await hashFolder(await listData(path.join(folder, 'data'), 'mnist'));
      return [
        await findFolder(place, 'source', await source()),
        await findArchive(place, 'runtime', { file: path.join(folder, 'runtime.tar.gz'), hash: 'f'.repeat(64), size: 6 }),
        await findData(place, 'mnist', data, false),
      ];
    };
    const first = await look();
    expect(first.map(({ bytes, missing }) => bytes === missing)).toEqual([true, true, true]);
    await expect(stat(path.join(folder, 'root'))).rejects.toThrow('ENOENT');
    const staged = await Promise.all(first.map((part) => part.stage()));
    const withoutTime = (value: unknown) => JSON.stringify(value, (key, each) => (key === 'timestamp' ? undefined : each));
    expect(staged.map(withoutTime)).toEqual(first.map(({ expected }) => withoutTime(expected)));
    const again = await look();
    expect(again.map(({ bytes, missing }) => [bytes, missing])).toEqual(first.map(({ bytes }) => [bytes, 0]));
    expect(again.map(({ expected }) => expected)).toEqual(staged);
  });

  test('packs an archive that discard() removes', async () => {
    vi.stubEnv('TMPDIR', folder);
    const part = await findFolder(place, 'source', await source());
    const packed = (await readdir(folder)).filter((name) => name.startsWith('tony-ts-'));
    expect(packed).toHaveLength(1);
    await part.discard();
    await part.discard();
    vi.unstubAllEnvs();
    expect(await readdir(folder)).toEqual(['source']);
  });
});

test('an abort ends packing with its reason and leaves no files', async () => {
  vi.stubEnv('TMPDIR', folder);
  onTestFinished(() => void vi.unstubAllEnvs());
  const folderToPack = await source();
  const controller = new AbortController();
  let begun: string[] = [];
  vi.spyOn(folderToPack.digests, 'get').mockImplementation(() => {
    begun = readdirSync(folder).filter((name) => name.startsWith('tony-ts-'));
    controller.abort(new Error('interrupted'));
    return undefined;
  });
  await expect(findFolder({ ...place, signal: controller.signal }, 'source', folderToPack)).rejects.toThrow('interrupted');
  expect(begun).toHaveLength(1);
  expect(await readdir(folder)).toEqual(['source']);
});

describe('data', () => {
  test('is uploaded file by file, but only files that are missing or differ in size', async () => {
    const data = path.join(folder, 'data');
    await mkdir(path.join(data, 'part one'), { recursive: true });
    await writeFile(path.join(data, 'part one', 'a.bin'), Buffer.alloc(1000));
    await writeFile(path.join(data, 'b%.bin'), 'bb');
    const listing = await hashFolder(await listData(data, 'mnist'));
    const uri = await (await findData(place, 'mnist', listing, false)).stage();
    expect(await readdir(fileURLToPath(uri), { recursive: true })).toEqual(
      expect.arrayContaining(['b%.bin', path.join('part one', 'a.bin')]),
    );
    expect(events.at(-1)).toEqual({ type: 'upload', name: 'mnist', sent: 1002, total: 1002 });
    expect(events.filter((event) => event.type === 'upload' && event.sent === event.total)).toHaveLength(1);
    events.length = 0;
    await (await findData(place, 'mnist', listing, false)).stage();
    expect(events).toEqual([{ type: 'unchanged', name: 'mnist', bytes: 1002 }]);
    await truncate(path.join(fileURLToPath(uri), 'b%.bin'), 1);
    events.length = 0;
    await (await findData(place, 'mnist', listing, false)).stage();
    expect(events.at(-1)).toEqual({ type: 'upload', name: 'mnist', sent: 2, total: 2 });
  });

  test('may be a single file', async () => {
    await writeFile(path.join(folder, 'one.csv'), '1,2');
    const table = await hashFolder(await listData(path.join(folder, 'one.csv'), 'table'));
    const uri = await (await findData(place, 'table', table, true)).stage();
    expect(uri).toMatch(/\/cache\/[0-9a-f]{64}\/table\/one\.csv$/);
    expect((await stat(fileURLToPath(uri))).size).toBe(3);
  });
});

test('stageJob writes job.json into a private folder, visible to its application only', async () => {
  const home = `${place.root}/jobs/application_1_0001`;
  const resource = await stageJob(place, home, '{}');
  expect(resource).toMatchObject({ name: 'job.json', uri: `${home}/job.json`, visibility: 'application', type: 'file', size: 2 });
  expect((await stat(fileURLToPath(home))).mode & 0o777).toBe(0o700);
});

test('stageKeytab writes a file that only the user can read', async () => {
  const home = `${place.root}/jobs/application_1_0001`;
  await stageJob(place, home, '{}');
  const resource = await stageKeytab(place, home, new Secret(Buffer.from([5, 2])));
  expect(resource).toMatchObject({ name: 'keytab', uri: `${home}/keytab`, visibility: 'application', type: 'file', size: 2 });
  expect((await stat(fileURLToPath(resource.uri))).mode & 0o777).toBe(0o600);
});

test('openStaging rejects a root to which other users can write', async () => {
  const username = await me();
  await openStaging(place, username);
  await openStaging(place, username);
  await chmod(path.join(folder, 'root'), 0o777);
  await expect(openStaging(place, username)).rejects.toMatchObject({ code: 'STAGING_UNWRITABLE', exitCode: 4 });
});

test('an abort ends an upload with its reason and leaves no files', async () => {
  const controller = new AbortController();
  await writeFile(path.join(folder, 'big'), Buffer.alloc(5 << 20));
  const aborting = { ...place, signal: controller.signal, onEvent: () => controller.abort(new Error('interrupted')) };
  await expect(
    (await findArchive(aborting, 'runtime', { file: path.join(folder, 'big'), hash: 'a', size: 5 << 20 })).stage(),
  ).rejects.toThrow('interrupted');
  expect(await readdir(path.join(folder, 'root', 'cache', 'a'))).toEqual([]);
});
