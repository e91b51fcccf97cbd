import { mkdir, mkdtemp, readdir, readFile, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import type { FrozenJob } from '../../conf/job.ts';
import { TonyError } from '../../platform/errors.ts';
import { fileUri } from '../../storage/uri.ts';
import { CheckpointSync } from './checkpoint-sync.ts';
import { openSync } from './open-sync.ts';

let root: string;
let stored: number[];
let notices: string[];

beforeEach(async () => {
  root = await mkdtemp(path.join(tmpdir(), 'checkpoint-sync-'));
  onTestFinished(() => rm(root, { recursive: true, force: true }));
  stored = [];
  notices = [];
});

const at = (...names: string[]): string => path.join(root, ...names);

/** Creates a working directory that is named after the generation, and opens its `ckpt` folder. */
async function open(generation: number, rank = 0): Promise<CheckpointSync | null> {
  await mkdir(at(`${generation}`), { recursive: true });
  const frozen = {
    jobId: 'application_1_0001',
    job: { checkpoint: { keep: 1 } },
    user: 'alice',
    checkpointDir: fileUri(at('checkpoints')),
    cluster: { kind: 'local', directory: root },
  } as unknown as FrozenJob;
  const sync = await openSync(
    { frozen, folder: root, s3: null },
    {
      generation,
      rank,
      folder: at(`${generation}`),
      sync: 'out/ckpt',
      signal: new AbortController().signal,
      onStored: (step) => stored.push(step),
      onNotice: (message) => notices.push(message),
    },
  );
  onTestFinished(() => sync?.abort());
  return sync;
}

async function write(generation: number, name: string, content: string): Promise<void> {
  const file = at(`${generation}`, 'out', 'ckpt', name);
  await mkdir(path.dirname(file), { recursive: true });
  await writeFile(file, content);
}

const checkpoints = async (): Promise<string[]> => (await readdir(at('checkpoints'))).filter((name) => name.startsWith('step-')).sort();

test('stores complete versions while the program runs, and the next generation starts with the newest one', async () => {
  const first = await open(1);
  await write(1, 'step-5/weights', 'weights of 5');
  await write(1, 'step-5.done', '');
  await expect.poll(() => stored, { timeout: 5_000 }).toEqual([5]);
  await write(1, 'step-6/weights', 'weights of 6');
  await write(1, 'step-6.done', '');
  await write(1, 'model-7.pt', 'weights of 7');
  await write(1, 'model-7.pt.done', '');
  await write(1, 'step-8/weights', 'half');
  await first?.finish(5_000);
  // If there are several complete versions, only the newest one must be stored.
  expect(stored.at(-1)).toBe(7);
  expect(await checkpoints()).toEqual(['step-7']);

  const second = await open(2);
  expect((await readdir(at('2', 'out', 'ckpt'))).sort()).toEqual(['model-7.pt', 'model-7.pt.done']);
  expect(await readFile(at('2', 'out', 'ckpt', 'model-7.pt'), 'utf8')).toBe('weights of 7');
  await write(2, 'step-9/part/weights', 'weights of 9');
  await write(2, 'step-9.done', '');
  await second?.finish(5_000);
  // The generation keeps the checkpoint from which it started.
  expect(await checkpoints()).toEqual(['step-7', 'step-9']);
  // A task that starts later in the same generation gets the same checkpoint as the others.
  expect(await open(2, 1)).toBeNull();
  expect(await readdir(at('2', 'out', 'ckpt'))).toEqual(['model-7.pt', 'model-7.pt.done']);
  await open(3);
  expect(await readFile(at('3', 'out', 'ckpt', 'step-9', 'part', 'weights'), 'utf8')).toBe('weights of 9');
  expect(notices).toEqual(['training resumes from checkpoint step-7', 'training resumes from checkpoint step-9']);
});

test('an invalid newest version is not published, and the program counts as failed', async () => {
  const sync = await open(1);
  await write(1, 'step-1/weights', 'weights of 1');
  await write(1, 'step-1.done', '');
  await write(1, 'step-2/weights', 'weights of 2');
  await write(1, 'step-2.done', '');
  await utimes(at('1', 'out', 'ckpt', 'step-2', 'weights'), 9e9, 9e9);
  await expect(sync?.finish(5_000)).rejects.toMatchObject({ code: 'CHECKPOINT_FAILED' });
  expect(await checkpoints()).toEqual(['step-1']);
  expect(notices).toEqual(['step-2 changed after step-2.done was created, so it is not stored as a checkpoint.']);
});

test('survives a loss of the storage, and stops when a newer generation has started', async () => {
  await mkdir(at('ckpt'));
  await writeFile(at('ckpt', 'step-3'), '');
  await writeFile(at('ckpt', 'step-3.done'), '');
  const errors = [new Error('unreachable'), new TonyError('CHECKPOINT_FENCED', 'generation 1 has ended')];
  const sync = new CheckpointSync({
    folder: at('ckpt'),
    scratch: at('scratch'),
    restoredStep: -1,
    save: async () => {
      throw errors.shift();
    },
    onStored: (step) => stored.push(step),
    onNotice: (message) => notices.push(message),
  });
  await expect(sync.finish(5_000)).rejects.toMatchObject({ code: 'CHECKPOINT_FENCED' });
  expect(notices).toEqual(['The newest checkpoint could not be stored; trying again: unreachable']);
  expect(stored).toEqual([]);
});

test('stops trying to store the last version at a time limit', async () => {
  await mkdir(at('ckpt'));
  await writeFile(at('ckpt', 'step-3'), '');
  await writeFile(at('ckpt', 'step-3.done'), '');
  const sync = new CheckpointSync({
    ...{ folder: at('ckpt'), scratch: at('scratch'), restoredStep: -1, onStored: () => {}, onNotice: () => {} },
    save: async () => {
      throw new Error('unreachable');
    },
  });
  await expect(sync.finish(50)).rejects.toThrow('could not be stored in time: unreachable');
});

test('refuses a folder behind a symbolic link', async () => {
  await mkdir(at('1'));
  await mkdir(at('elsewhere', 'ckpt'), { recursive: true });
  await symlink(at('elsewhere'), at('1', 'out'));
  await expect(open(1)).rejects.toThrow('checkpoint.sync leads through the symbolic link out');
  expect(await readdir(at('elsewhere'))).toEqual(['ckpt']);
});
