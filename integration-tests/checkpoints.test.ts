import { afterAll, beforeAll, expect, test } from 'vitest';
import { CheckpointStore } from '../contract/checkpoint/checkpoint-store.ts';
import { CheckpointWriter } from '../contract/checkpoint/checkpoint-writer.ts';
import { describeFencing, ORIGIN, onTheWire, saveSharded, snapshot } from '../contract/testing/checkpoint-behaviour.ts';
import { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { createStorage } from '../storage/create-storage.ts';
import type { Storage } from '../storage/storage.ts';
import { joinUri } from '../storage/uri.ts';
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

test('the writer resumes saving checkpoints when the NameNode restarts', async () => {
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
  await until(() => troubles.length > 0, { describe: 'trouble' });
  writer.offer(snapshot(3));
  await cluster.start('namenode');
  await writer.finish();
  expect(saved.at(-1)).toBe(3);
  expect((await store.newest(() => {}))?.position.step).toBe(3);
});

test('several processes write one checkpoint together, and each loads its own tensors from it', async () => {
  const store = new CheckpointStore(storage, emptyFolder());
  await saveSharded(store, 4, ORIGIN);
  await store.marks.setBest({ step: 4, metric: 'loss', value: 0.5, mode: 'min' });
  await store.save(snapshot(3), ORIGIN);
  await store.save(snapshot(5), ORIGIN);
  expect(await store.marks.hold('evaluator:0', 3)).toBe(true);
  await store.prune(5, 1);
  expect(await store.steps()).toEqual([5, 4, 3]);
  await store.marks.release('evaluator:0');
  await store.prune(5, 1);
  expect(await store.steps()).toEqual([5, 4]);
  const opened = onTheWire(await store.openCheckpoint((await store.marks.best())?.step ?? 0));
  for (const tensor of snapshot(4).tensors) {
    expect(await store.readTensors(opened, [tensor.name])).toEqual([tensor]);
  }
  const tensors = Array.from({ length: 3 }, (_, index) => ({
    name: `model:${index}:w`,
    dtype: 'float32' as const,
    shape: [1_500_000],
    bytes: new Uint8Array(Float32Array.from({ length: 1_500_000 }, (_, at) => at + index).buffer),
  }));
  await store.save({ position: snapshot(6).position, tensors }, ORIGIN);
  const [middle] = await store.readTensors(await store.openCheckpoint(6), ['model:1:w']);
  expect(Buffer.compare(middle?.bytes as Uint8Array, tensors[1]?.bytes as Uint8Array)).toBe(0);
});
