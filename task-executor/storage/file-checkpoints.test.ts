import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { createStorage } from '../../storage/create-storage.ts';
import { fileUri } from '../../storage/uri.ts';
import { FileCheckpoints } from './file-checkpoints.ts';

const signal = new AbortController().signal;
const unexpected = (message: string) => expect.fail(message);
let root: string;
let local: string;
let dir: string;

beforeEach(async () => {
  root = await mkdtemp(path.join(tmpdir(), 'file-checkpoints-'));
  onTestFinished(() => rm(root, { recursive: true, force: true }));
  local = path.join(root, 'local');
  dir = path.join(root, 'checkpoints');
  await mkdir(path.join(local, 'part'), { recursive: true });
  await writeFile(path.join(local, 'state'), 'state');
  await writeFile(path.join(local, 'part', 'empty'), '');
});

function checkpoints(generation: number, keep = 3, jobId = 'application_1_0001'): FileCheckpoints {
  const storage = createStorage({ hadoop: null, user: 'alice' });
  onTestFinished(() => storage.close());
  return new FileCheckpoints(storage, fileUri(dir), { jobId, generation }, keep);
}

describe('FileCheckpoints', () => {
  test('restores the files of the newest checkpoint, with their sub-folders, and keeps the newest checkpoints', async () => {
    const first = checkpoints(1, 2);
    expect(await first.restore(path.join(root, 'copy'), signal, unexpected)).toBeNull();
    for (const step of [5, 10, 15]) {
      await writeFile(path.join(local, 'state'), `state of ${step}`);
      expect(await first.save(step, local, signal)).toBe(fileUri(path.join(dir, `step-${step}`)));
    }
    expect((await readdir(dir)).sort()).toEqual(['.pending', 'step-10', 'step-15']);
    const restored = await checkpoints(2).restore(path.join(root, 'copy'), signal, unexpected);
    expect(restored?.step).toBe(15);
    const folder = restored?.folder ?? '';
    expect(await readFile(path.join(folder, 'state'), 'utf8')).toBe('state of 15');
    expect(await readFile(path.join(folder, 'part', 'empty'), 'utf8')).toBe('');
    expect(existsSync(path.join(folder, 'files.json'))).toBe(false);
  });

  test('another job continues streams, and reads other feeds from the beginning', async () => {
    const place = { epoch: 7, records: 120 };
    const stream = { '*': { ...place, query: 'ca1c21f0', division: { ranks: 2, partitions: 4 } } };
    const feeds = { clicks: stream, train: { 0: place } };
    await checkpoints(1).save(5, local, signal, { feeds });
    const notices: string[] = [];
    const copy = path.join(root, 'copy');
    expect((await checkpoints(2).restore(copy, signal, unexpected))?.feeds).toEqual(feeds);
    const other = await checkpoints(1, 3, 'application_1_0002').restore(copy, signal, (message) => notices.push(message));
    expect(other?.feeds).toEqual({ clicks: stream });
    expect(notices).toEqual([
      expect.stringMatching(/^the feeds train are read from the beginning, because checkpoint step-5 is of another job/),
    ]);
  });

  test('an earlier generation stores no checkpoint after a later one has restored', async () => {
    const old = checkpoints(1);
    await old.save(5, local, signal);
    await checkpoints(2).restore(path.join(root, 'copy'), signal, unexpected);
    await expect(old.save(6, local, signal)).rejects.toMatchObject({ code: 'CHECKPOINT_FENCED' });
    expect((await readdir(dir)).filter((name) => name.startsWith('step-'))).toEqual(['step-5']);
  });

  test.each([
    ['a changed file', (at: string) => writeFile(path.join(at, 'state'), 'spate'), /step-10 is skipped: the checksum/],
    ['a missing file', (at: string) => rm(path.join(at, 'state')), /step-10 is skipped: .*state/],
    ['an invalid index', (at: string) => writeFile(path.join(at, 'files.json'), 'x'), /is not valid JSON/],
    [
      'a name outside the folder',
      async (at: string) => {
        const index = await readFile(path.join(at, 'files.json'), 'utf8');
        await writeFile(path.join(at, 'files.json'), index.replace('"part/empty"', '"../../part/empty"'));
      },
      /has an unknown format/,
    ],
  ])('skips a checkpoint with %s', async (_, damage, message) => {
    const first = checkpoints(1);
    await first.save(5, local, signal);
    await first.save(10, local, signal);
    await damage(path.join(dir, 'step-10'));
    const skipped: string[] = [];
    const restored = await checkpoints(2).restore(path.join(root, 'copy'), signal, (text) => skipped.push(text));
    expect(restored?.step).toBe(5);
    expect(skipped).toEqual([expect.stringMatching(message)]);
    expect(await readdir(path.join(root, 'copy'))).toEqual(['step-5']);
  });

  test('refuses links, empty folders and a file with the name of the index', async () => {
    const each = checkpoints(1);
    await symlink('/etc/passwd', path.join(local, 'link'));
    await expect(each.save(1, local, signal)).rejects.toThrow('link is a symbolic link');
    await rm(path.join(local, 'link'));
    await writeFile(path.join(local, 'files.json'), '');
    await expect(each.save(1, local, signal)).rejects.toThrow('which tony-ts writes itself');
    await rm(local, { recursive: true });
    await mkdir(local);
    await expect(each.save(1, local, signal)).rejects.toThrow('contains no files');
    expect((await readdir(dir)).filter((name) => name.startsWith('step-'))).toEqual([]);
  });
});
