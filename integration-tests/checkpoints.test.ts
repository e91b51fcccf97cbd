import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { HadoopConfiguration } from '../hadoop/configuration.ts';
import { createStorage } from '../storage/create-storage.ts';
import type { Storage } from '../storage/storage.ts';
import { fileUri, joinUri } from '../storage/uri.ts';
import { CheckpointStore } from '../training/checkpoint-store.ts';
import { CheckpointWriter } from '../training/checkpoint-writer.ts';
import { SummaryWriter } from '../training/summary.ts';
import { describeFencing, ORIGIN, snapshot } from '../training/testing/checkpoint-behaviour.ts';
import { temporaryFolder, USER, until, useCluster } from './harness.ts';
import { tensorboardPython } from './tensorboard-venv.ts';

const cluster = useCluster();
const execute = promisify(execFile);
const ROOT = `hdfs:///user/${USER}/checkpoint-test`;
let storage: Storage;
let folders = 0;

beforeAll(async () => {
  storage = createStorage({ hadoop: await HadoopConfiguration.fromEnvironment(cluster.environment()), user: USER });
});
afterAll(async () => {
  await storage.remove(ROOT);
  storage.close();
});

const emptyFolder = () => {
  folders += 1;
  return joinUri(ROOT, `folder-${folders}`);
};

describeFencing('hdfs', async () => ({ storage, dir: emptyFolder() }));

test('checkpoints are written when the NameNode is back', async () => {
  const store = new CheckpointStore(storage, emptyFolder());
  const [saved, troubles]: [number[], string[]] = [[], []];
  const writer = new CheckpointWriter(store, {
    ...ORIGIN,
    keep: 2,
    onSaved: (step) => saved.push(step),
    onTrouble: (message) => troubles.push(message),
    retry: { firstMs: 200, mostMs: 1000 },
  });
  writer.offer(snapshot(1));
  await until(() => saved.length === 1, { describe: 'the first checkpoint' });
  await cluster.kill('namenode');
  writer.offer(snapshot(2));
  await until(() => troubles.length > 0, { describe: 'trouble', timeoutMs: 120_000 });
  writer.offer(snapshot(3));
  await cluster.start('namenode');
  await writer.finish();
  expect(saved.at(-1)).toBe(3);
  expect((await store.newest(() => {}))?.position.step).toBe(3);
});

const READER = `
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1]).Reload()
print(json.dumps({tag: [[e.step, round(e.value, 4)] for e in events.Scalars(tag)] for tag in events.Tags()['scalars']}))
`;

describe('TensorBoard reads what was written', () => {
  let python: string;
  beforeAll(async () => {
    python = await tensorboardPython();
  });

  const read = async (folder: string) => JSON.parse((await execute(python, ['-c', READER, folder])).stdout) as unknown;

  test('to this machine, over a restart', async () => {
    const folder = await temporaryFolder();
    const dir = fileUri(path.join(folder, 'train'));
    const first = new SummaryWriter({ storage, dir, onTrouble: () => {} });
    for (const step of [10, 20, 30]) {
      first.scalars({ loss: 1 / step, 'train/acc': step / 100 }, step);
      await first.flush();
    }
    // Gone on from step 20: what was written for later steps is void.
    const second = new SummaryWriter({ storage, dir, onTrouble: () => {}, now: () => Date.now() + 5000 });
    second.resumeFrom(21);
    second.scalars({ loss: 0.5 }, 30);
    await second.flush();
    expect(await read(path.join(folder, 'train'))).toEqual({
      loss: [
        [10, 0.1],
        [20, 0.05],
        [30, 0.5],
      ],
      'train/acc': [
        [10, 0.1],
        [20, 0.2],
      ],
    });
  });

  test('to HDFS, in several files', async () => {
    const dir = emptyFolder();
    const writer = new SummaryWriter({ storage, dir, onTrouble: () => {} });
    for (const step of [1, 2, 3]) {
      writer.scalar('loss', step / 2, step);
      await writer.flush();
    }
    const folder = await temporaryFolder();
    const entries = await storage.list(dir);
    expect(entries).toHaveLength(3);
    for (const { uri, name } of entries) {
      await writeFile(path.join(folder, name), await storage.read(uri));
    }
    expect(await read(folder)).toEqual({
      loss: [
        [1, 0.5],
        [2, 1],
        [3, 1.5],
      ],
    });
  });
});
