import { mkdir, mkdtemp, readdir, readFile, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { type LocalVersion, markedVersions, stageVersion, stepOf } from './local-versions.ts';

let root: string;
let folder: string;
const ignored: string[] = [];

beforeEach(async () => {
  root = await mkdtemp(path.join(tmpdir(), 'local-versions-'));
  onTestFinished(() => rm(root, { recursive: true, force: true }));
  folder = path.join(root, 'ckpt');
  await mkdir(folder);
  ignored.length = 0;
});

const at = (...names: string[]): string => path.join(folder, ...names);
const marked = (): Promise<LocalVersion[]> => markedVersions(folder, (name) => ignored.push(name));

async function onlyVersion(): Promise<LocalVersion> {
  const [version] = await marked();
  return version ?? expect.fail('no version');
}

async function writeVersion(): Promise<void> {
  await mkdir(at('step-7', 'part'), { recursive: true });
  await writeFile(at('step-7', 'part', 'weights'), 'weights');
  await writeFile(at('step-7.done'), '');
}

test.each([
  ['step-100', 100],
  ['model-100.h5', 100],
  ['v2-epoch=3-step=400.ckpt', 400],
  ['model.12', 12],
  ['checkpoint', null],
  ['step-99999999999999999999', null],
])('the step of %s is %s', (name, step) => {
  expect(stepOf(name)).toBe(step);
});

describe('markedVersions', () => {
  test('lists only versions with a marker, highest step first', async () => {
    for (const name of ['step-5', 'step-40', 'step-50', 'best', '.tmp-60']) {
      await mkdir(at(name));
    }
    await writeFile(at('model-45.pt'), '');
    for (const name of ['step-5', 'step-40', 'model-45.pt', 'best', '.tmp-60', 'step-99']) {
      await writeFile(at(`${name}.done`), '');
    }
    expect((await marked()).map(({ name }) => name)).toEqual(['model-45.pt', 'step-40', 'step-5']);
    expect(ignored).toEqual(['best']);
    await rm(folder, { recursive: true });
    expect(await marked()).toEqual([]);
  });
});

describe('stageVersion', () => {
  test('keeps the files of a version that the program removes', async () => {
    await writeVersion();
    const staged = await stageVersion(folder, await onlyVersion(), path.join(root, 'staged'));
    await rm(at('step-7'), { recursive: true });
    await staged?.verify();
    expect(staged).toMatchObject({ target: 'step-7', folder: path.join(root, 'staged', 'step-7') });
    expect(await readFile(path.join(staged?.folder ?? '', 'part', 'weights'), 'utf8')).toBe('weights');
  });

  test('stages a version that is a single file', async () => {
    await writeFile(at('model-7.pt'), 'weights');
    await writeFile(at('model-7.pt.done'), '');
    const staged = await stageVersion(folder, await onlyVersion(), path.join(root, 'staged'));
    expect(staged).toMatchObject({ target: '', folder: path.join(root, 'staged') });
    expect(await readdir(staged?.folder ?? '')).toEqual(['model-7.pt']);
  });

  test('returns null for a version that the program has removed', async () => {
    await writeVersion();
    const version = await onlyVersion();
    await rm(at('step-7'), { recursive: true });
    expect(await stageVersion(folder, version, path.join(root, 'staged'))).toBeNull();
  });

  test.each([
    ['a file that is newer than the marker', () => utimes(at('step-7', 'part', 'weights'), 9e9, 9e9), 'step-7 changed after step-7.done'],
    ['a symbolic link', () => symlink('/etc/passwd', at('step-7', 'link')), 'link is a symbolic link'],
    ['no files', () => rm(at('step-7', 'part'), { recursive: true }), 'step-7 contains no files'],
  ])('rejects a version with %s', async (_, damage, message) => {
    await writeVersion();
    await damage();
    await expect(stageVersion(folder, await onlyVersion(), path.join(root, 'staged'))).rejects.toThrow(message);
  });

  test('detects a file that the program changes later', async () => {
    await writeVersion();
    const staged = await stageVersion(folder, await onlyVersion(), path.join(root, 'staged'));
    await writeFile(at('step-7', 'part', 'weights'), 'half');
    await expect(staged?.verify()).rejects.toThrow('step-7 changed after step-7.done');
  });
});
