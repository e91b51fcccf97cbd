import { afterAll, beforeAll, expect, test } from 'vitest';
import { HadoopConfiguration } from '../hadoop/configuration.ts';
import { createStorage } from '../storage/create-storage.ts';
import type { Storage } from '../storage/storage.ts';
import { joinUri } from '../storage/uri.ts';
import { CheckpointStore } from '../training/checkpoint-store.ts';
import { CheckpointWriter } from '../training/checkpoint-writer.ts';
import { describeFencing, ORIGIN, snapshot } from '../training/testing/checkpoint-behaviour.ts';
import { USER, until, useCluster } from './harness.ts';

const cluster = useCluster();
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
