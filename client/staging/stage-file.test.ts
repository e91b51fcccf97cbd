import { execFileSync } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Job } from '../../conf/job.ts';
import { parseJob } from '../../conf/resolve/load-job.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import type { Entry, Storage } from '../../storage/storage.ts';
import { fileUri } from '../../storage/uri.ts';
import { findJobFiles, type JobFile } from '../job/job-files.ts';
import { hashFolder } from '../job/source-archive.ts';
import { listFolder } from '../job/source-folder.ts';
import { placeFile } from './local-file.ts';
import { findJobFile } from './stage-file.ts';
import type { StagingPlace } from './staging.ts';

let folder = '';
let place: StagingPlace;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tony-files-'));
  place = { storage: new FileStorage(), root: fileUri(path.join(folder, 'root')), onEvent: () => undefined };
  await mkdir(path.join(folder, 'assets', 'bin'), { recursive: true });
  await writeFile(path.join(folder, 'assets', 'bin', 'run.sh'), 'echo run\n', { mode: 0o755 });
  await writeFile(path.join(folder, 'vocab.txt'), 'a b c\n');
  execFileSync('tar', ['czf', 'assets.tar.gz', '-C', 'assets', '.'], { cwd: folder });
  execFileSync('python3', ['-m', 'zipfile', '-c', 'assets.zip', 'assets/bin'], { cwd: folder });
});
afterEach(() => rm(folder, { recursive: true, force: true }));

function jobOf(text: string): Job {
  return parseJob(`name: x\ncommand: 'true'\nroles: {worker: {}}\n${text}\n`, { file: 'job.yaml', folder });
}

async function filesOf(text: string): Promise<readonly JobFile[]> {
  return (await findJobFiles(jobOf(text), null))['*'] ?? [];
}

async function only(text: string): Promise<JobFile> {
  return (await filesOf(text))[0] as JobFile;
}

describe('on HDFS', () => {
  test('local files and archives are stored by content hash, under names by which NodeManagers recognise their formats', async () => {
    const files = await filesOf(
      'files: {words: {path: vocab.txt, visibility: application}}\narchives: {a: assets.tar.gz, b: assets, c: assets.zip}',
    );
    const parts = await Promise.all(files.map((file) => findJobFile(place, file, place.root)));
    const staged = await Promise.all(parts.map((part) => part.stage()));
    expect(staged.map(({ name, type, visibility }) => [name, type, visibility])).toEqual([
      ['files/words', 'file', 'application'],
      ['files/a', 'archive', 'private'],
      ['files/b', 'archive', 'private'],
      ['files/c', 'archive', 'private'],
    ]);
    expect(staged.map(({ uri }) => uri.replace(/^.*\/cache\/[0-9a-f]{64}\//, ''))).toEqual([
      'words',
      'a.tar.gz',
      expect.stringMatching(/^b-\d+\.tar\.gz$/),
      'c.zip',
    ]);
    expect(await Promise.all(staged.map((resource, at) => parts[at]?.isStaged(resource)))).toEqual([true, true, true, true]);
    const again = await Promise.all(files.map((file) => findJobFile(place, file, place.root)));
    expect(again.map(({ missing, expected }) => [missing, expected])).toEqual(staged.map((resource) => [0, resource]));
  });

  const entry = (uri: string, change: Partial<Entry> = {}): Entry => ({
    ...{ uri, name: '', type: 'file', size: 7, modifiedAt: 42, permission: 0o755, owner: 'hdfs' },
    ...change,
  });
  const storageWith = (change: Readonly<Record<string, Partial<Entry> | null>>): StagingPlace => {
    const stat = async (uri: string): Promise<Entry | null> => (change[uri] === null ? null : entry(uri, change[uri]));
    return { ...place, storage: { stat } as Storage };
  };
  const SHARED = 'files: {a: "hdfs:///shared/a.bin"}';
  const find = async (text: string, change: Readonly<Record<string, Partial<Entry> | null>>) =>
    (await findJobFile(storageWith(change), await only(text), 'hdfs://nn/user/alice')).expected;

  test('a file that all users may read is public by default', async () => {
    expect(await find(SHARED, {})).toEqual({
      ...{ name: 'files/a', uri: 'hdfs://nn/shared/a.bin', type: 'file', visibility: 'public', size: 7, timestamp: 42 },
    });
    expect(await find('files: {a: {path: "hdfs:///shared/a.bin", visibility: application}}', {})).toMatchObject({
      visibility: 'application',
    });
  });

  test.each([
    ['the file is not readable', { 'hdfs://nn/shared/a.bin': { permission: 0o640 } }, 'hdfs://nn/shared/a.bin has mode 640'],
    ['a folder is closed', { 'hdfs://nn/shared': { permission: 0o750 } }, 'hdfs://nn/shared has mode 750'],
    ['the root folder is closed', { 'hdfs://nn/': { permission: 0o700 } }, 'hdfs://nn/ has mode 700'],
    ['the file is encrypted', { 'hdfs://nn/shared/a.bin': { encrypted: true } }, 'hdfs://nn/shared/a.bin is in an encryption zone'],
  ])('a file is private if %s, and cannot be set to public', async (_, change, reason) => {
    expect(await find(SHARED, change)).toMatchObject({ visibility: 'private' });
    const configured = 'files: {a: {path: "hdfs:///shared/a.bin", visibility: public}}';
    await expect(find(configured, change)).rejects.toMatchObject({
      code: 'JOB_INVALID',
      message: `files.a cannot be public, because ${reason}.`,
    });
  });

  test('rejects a missing file and a folder', async () => {
    await expect(find(SHARED, { 'hdfs://nn/shared/a.bin': null })).rejects.toThrow('files.a: hdfs://nn/shared/a.bin does not exist.');
    await expect(find(SHARED, { 'hdfs://nn/shared/a.bin': { type: 'folder' } })).rejects.toThrow('is a folder');
  });
});

describe('for local jobs', () => {
  const root = () => path.join(folder, 'local');
  const put = async (text: string) => placeFile(root(), await only(text), () => undefined);

  test('archives are unpacked, with executable bits and without write permission', async () => {
    for (const archive of ['assets.tar.gz', 'assets.zip', 'assets']) {
      const { uri, name } = await put(`archives: {tools: ${archive}}`);
      expect(name).toBe('files/tools');
      const script = path.join(fileURLToPath(uri), 'bin', 'run.sh');
      expect([archive, await readFile(script, 'utf8'), (await stat(script)).mode & 0o777]).toEqual([archive, 'echo run\n', 0o555]);
    }
  });

  test('a file is copied once, and the cache keeps the submitted content', async () => {
    const first = await put('files: {words: vocab.txt}');
    await writeFile(path.join(folder, 'vocab.txt'), 'changed\n');
    expect(await readFile(fileURLToPath(first.uri), 'utf8')).toBe('a b c\n');
    expect((await put('files: {words: vocab.txt}')).uri).not.toBe(first.uri);
  });

  test('a damaged archive is reported, and leaves nothing in the cache', async () => {
    for (const name of ['broken.tar.gz', 'broken.zip']) {
      await writeFile(path.join(folder, name), 'not an archive');
      const file = await only(`archives: {tools: ${name}}`);
      await expect(placeFile(root(), file, () => undefined)).rejects.toMatchObject({
        code: 'SOURCE_UNREADABLE',
        message: expect.stringContaining(`archives.tools: cannot unpack ${path.join(folder, name)}`),
      });
      const { hash } = file.content as { hash: string };
      expect(await readdir(path.join(root(), 'cache', hash))).toEqual([]);
    }
  });
});

test('rejects files that are missing, have the wrong type, or clash with the source folder', async () => {
  await expect(filesOf('files: {a: nowhere}')).rejects.toMatchObject({
    code: 'SOURCE_NOT_FOUND',
    message: expect.stringContaining('files.a'),
  });
  await expect(filesOf('files: {a: assets}')).rejects.toThrow(/files\.a: .*assets is a folder/);
  await expect(filesOf('archives: {a: vocab.txt}')).rejects.toThrow(/archives\.a: NodeManagers cannot unpack .*vocab\.txt/);
  await expect(filesOf('archives: {a: "hdfs:///a.rar"}')).rejects.toThrow('cannot unpack hdfs:///a.rar');
  await chmod(path.join(folder, 'vocab.txt'), 0o644);
  const source = await hashFolder(await listFolder(folder, 'source folder'));
  await expect(findJobFiles(jobOf('files: {vocab.txt: vocab.txt}'), source)).rejects.toMatchObject({
    code: 'JOB_INVALID',
    message: expect.stringContaining('also contains vocab.txt'),
  });
});

test('a zip archive changes no file outside its own folder, whatever names it contains', async () => {
  const outside = path.join(folder, 'id_rsa');
  await writeFile(outside, 'secret\n', { mode: 0o600 });
  const script = `
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w') as zipped:
    for name, mode in ((sys.argv[2], 0o666), ('../' * 12 + sys.argv[2][1:], 0o644), ('../../../../../id_rsa', 0), ('bin/../run.sh', 0o755)):
        entry = zipfile.ZipInfo(name)
        entry.external_attr = mode << 16
        zipped.writestr(entry, 'x')
`;
  execFileSync('python3', ['-c', script, path.join(folder, 'hostile.zip'), outside]);
  const placed = await placeFile(path.join(folder, 'local'), await only('archives: {a: hostile.zip}'), () => undefined);
  expect((await stat(outside)).mode & 0o777).toBe(0o600);
  expect(await readFile(outside, 'utf8')).toBe('secret\n');
  expect((await stat(path.join(fileURLToPath(placed.uri), 'bin', 'run.sh'))).mode & 0o777).toBe(0o555);
});
