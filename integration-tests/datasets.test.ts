import { mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Column, parseIdx } from '../contract/encoding/idx.ts';
import { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { createStorage } from '../storage/create-storage.ts';
import type { Storage } from '../storage/storage.ts';
import { encodeExample } from '../training/data/formats/example.ts';
import { writeTfRecords } from '../training/data/formats/tfrecord-writer.ts';
import { idx, jsonl, lines, tfRecords } from '../training/data/sources/sources.ts';
import { jsonLines, noneLeft, temporaryFolder, USER, useCluster } from './harness.ts';
import { MNIST } from './small-mnist.ts';

/** Reads datasets from a real HDFS, in this process and in the ranks of a job. */

const cluster = useCluster();
const FOLDER = `hdfs:///user/${USER}/dataset-test`;
let storage: Storage;

beforeAll(async () => {
  storage = createStorage({ hadoop: await HadoopConfiguration.fromEnvironment(cluster.environment()), user: USER });
});
afterAll(async () => {
  await storage.remove(FOLDER);
  storage.close();
});

test('two ranks train on TFRecords in HDFS and use each record once per epoch', async () => {
  const bytes = async (name: string) => parseIdx(await readFile(path.join(MNIST, name)), name).values;
  const [images, labels] = [await bytes('t10k-images-idx3-ubyte'), await bytes('t10k-labels-idx1-ubyte')];
  const records = Array.from(labels, (label, index) =>
    encodeExample({ image: Uint8Array.from(images.subarray(index * 784, (index + 1) * 784)), label: BigInt(label), id: BigInt(index) }),
  );
  // The files differ in length, so the ranks finish their first file at different times.
  for (const [name, from, to] of [
    ['a', 0, 5000],
    ['b', 5000, 8000],
    ['c', 8000, 10_000],
  ] as const) {
    await writeTfRecords(storage, `${FOLDER}/mnist/train-${name}.gz`, records.slice(from, to), { compression: 'gzip' });
  }
  await storage.write(`${FOLDER}/mnist/_SUCCESS`, new Uint8Array(0));

  const folder = await temporaryFolder();
  const source = path.join(folder, 'source');
  await mkdir(source);
  await writeFile(
    path.join(source, 'train.ts'),
    `import { appendFileSync } from 'node:fs';
import { data, fixedLenFeature, join, parseExample } from 'tony-ts/training';

const cluster = await join();
const { tf, rank } = cluster;
const schema = { image: fixedLenFeature([], 'string'), label: fixedLenFeature([], 'int64'), id: fixedLenFeature([], 'int64') };
const examples = data.tfRecords(cluster.uri('mnist', 'train-*'), { localCopy: true }).map(parseExample(schema));
const asTraining = ({ image, label }: { image: Buffer; label: number }) => ({ xs: Float32Array.from(image, (pixel) => pixel / 255), ys: label });
const train = examples
  .map((example) => {
    appendFileSync('${folder}/ids-' + rank, example.id + '\\n');
    return asTraining(example);
  })
  .shuffle(2000)
  .batch(50);

const model = tf.sequential({ layers: [tf.layers.dense({ units: 10, activation: 'softmax', inputShape: [784] })] });
model.compile({ optimizer: tf.train.adam(0.005), loss: 'sparseCategoricalCrossentropy' });
const { steps } = await cluster.fit(model, train, { epochs: 2 });

let right = 0;
for await (const { xs, ys } of examples.map(asTraining).batch(1000).read({ storage: cluster.storage })) {
  right += tf.tidy(() => {
    const found = (model.predict(tf.tensor(xs.values, [...xs.shape])) as ReturnType<typeof tf.tensor>).argMax(1).dataSync();
    return Array.from(ys.values).filter((label, index) => label === found[index]).length;
  });
}
cluster.report({ right: right / 10_000, steps }, { step: steps });
`,
  );
  await writeFile(
    path.join(folder, 'job.yaml'),
    `name: datasets
source: source
data: {mnist: '${FOLDER}/mnist'}
roles: {worker: {instances: 2, command: node train.ts, resources: {memory: 1g}}}
master: {resources: {memory: 512m}}
checkpoint: {everySteps: 30}
`,
  );
  const { stdout, stderr, exitCode } = await cluster.run(['submit', '--conf', path.join(folder, 'job.yaml'), '--output', 'json'], {});
  expect({ stderr, exitCode }).toMatchObject({ exitCode: 0 });
  const result = jsonLines(stdout).at(-1) as { id: string; metrics: Record<string, number> };
  await noneLeft(cluster, result.id);
  const ids = await Promise.all(
    [0, 1].map(async (rank) => (await readFile(`${folder}/ids-${rank}`, 'utf8')).trim().split('\n').map(Number)),
  );
  for (const own of ids) {
    expect(own.length).toBeGreaterThan(5000);
  }
  const times = new Uint8Array(10_000);
  for (const id of ids.flat()) {
    times[id] = (times[id] as number) + 1;
  }
  expect(new Set(times)).toEqual(new Set([2]));
  // Each rank reads 5000 records per epoch, as one file of 5000 or two files of 3000 and 2000. With batches of 50, two epochs are 200
  // steps.
  expect(result.metrics.steps).toBe(200);
  expect(result.metrics.right).toBeGreaterThan(0.85);
});

test('ranks read splits of paired IDX files, and read the next epoch from local copies', async () => {
  for (const name of ['t10k-images-idx3-ubyte', 't10k-labels-idx1-ubyte']) {
    await storage.write(`${FOLDER}/idx/${name}`, await readFile(path.join(MNIST, name)));
  }
  const labels = parseIdx(await readFile(path.join(MNIST, 't10k-labels-idx1-ubyte')), 'labels').values;
  const digits = idx<{ image: Column; label: number }>(
    { image: `${FOLDER}/idx/*-images-*`, label: `${FOLDER}/idx/*-labels-*` },
    { splitBytes: 1_000_000, localCopy: { folder: await temporaryFolder(), keepFreeBytes: 0 } },
  );
  const shares = await Promise.all([0, 1].map((index) => digits.toArray({ storage, share: { index, count: 2 } })));
  for (const share of shares) {
    expect(share.length).toBeGreaterThan(4000);
  }
  const count = (values: Iterable<number>) =>
    Array.from(values).reduce((counts, label) => counts.with(label, (counts[label] ?? 0) + 1), new Array<number>(10).fill(0));
  expect(count(shares.flat().map(({ label }) => label))).toEqual(count(labels));
  await cluster.kill('datanode');
  try {
    expect(await digits.toArray({ storage, share: { index: 0, count: 2 }, epoch: 1 })).toEqual(shares[0]);
  } finally {
    await cluster.heal();
  }
});

test('reading continues at the same record after a restart of the DataNode', async () => {
  const records = Array.from({ length: 30_000 }, (_, index) => Buffer.from(`record ${index}`.padEnd(1000)));
  await writeTfRecords(storage, `${FOLDER}/large.tfrecord`, records);
  const reader = tfRecords(`${FOLDER}/large.tfrecord`).map(String).read({ storage });
  let count = 0;
  for await (const record of reader) {
    if (record.trim() !== `record ${count}`) {
      throw new Error(`record ${count} is ${record.trim()}`);
    }
    count++;
    if (count === 100) {
      await cluster.kill('datanode');
      await cluster.start('datanode');
    }
  }
  expect(count).toBe(30_000);
});

test('ranks read different splits of text files, and file names may be patterns', async () => {
  const text = Array.from({ length: 200_000 }, (_, index) => JSON.stringify({ index }));
  await storage.write(`${FOLDER}/text/part-0.jsonl`, Buffer.from(`${text.join('\n')}\n`));
  const values = jsonl<{ index: number }>(`${FOLDER}/t?xt/part-*`, { splitBytes: 100_000 });
  const shares = await Promise.all([0, 1, 2].map((index) => values.toArray({ storage, share: { index, count: 3 } })));
  for (const share of shares) {
    expect(share.length).toBeGreaterThan(60_000);
  }
  const all = shares
    .flat()
    .map(({ index }) => index)
    .sort((a, b) => a - b);
  expect(all.every((value, index) => value === index) && all.length === text.length).toBe(true);
  await expect(lines(`${FOLDER}/none/*`).toArray({ storage })).rejects.toMatchObject({ code: 'NOT_FOUND' });
});
