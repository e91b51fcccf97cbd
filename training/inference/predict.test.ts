import { readdir, readFile } from 'node:fs/promises';
import { gunzipSync } from 'node:zlib';
import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { openSource } from '../../platform/byte-source.ts';
import { createRandom } from '../../platform/random.ts';
import { createStorage } from '../../storage/create-storage.ts';
import type { Storage } from '../../storage/storage.ts';
import { fileUri } from '../../storage/uri.ts';
import type { Cluster } from '../cluster/cluster.ts';
import { decodeExample, encodeExample } from '../data/formats/example.ts';
import { csv, jsonl, tfRecords } from '../data/sources/sources.ts';
import { folderWith, tfRecordFile } from '../data/testing/files.ts';
import { exportGraphModel, loadGraphModel } from '../export/graph-model.ts';
import { type PredictReport, predict } from './predict.ts';
import type { Values } from './predict-model.ts';

const storage = createStorage({ hadoop: null, user: 'alice' });

/** The part of a `Cluster` that `predict` uses, for one of several workers. */
function worker(index: number, count: number, own: Storage = storage): Cluster & { readonly reported: Record<string, number>[] } {
  const reported: Record<string, number>[] = [];
  const parts = {
    tf,
    storage: own,
    role: 'worker',
    index,
    generation: 1,
    jobId: 'application_1_0001',
    share: { index, count },
    outputUri: null,
    report: (values: Record<string, number>) => reported.push(values),
    reported,
  };
  return parts as unknown as Cluster & { readonly reported: Record<string, number>[] };
}

function writingBy(write: Storage['write']): Storage {
  return {
    open: (...words) => storage.open(...words),
    read: (uri) => storage.read(uri),
    write,
    stat: (uri) => storage.stat(uri),
    list: (uri) => storage.list(uri),
    rename: (from, to) => storage.rename(from, to),
    remove: (uri) => storage.remove(uri),
    makeFolder: (uri) => storage.makeFolder(uri),
    close: () => {},
  };
}

const FILES = 7;
const RECORDS = 50;

async function numbers(): Promise<string> {
  const files = Array.from({ length: FILES }, (_, file) => {
    const lines = Array.from({ length: RECORDS - file }, (_, at) => JSON.stringify({ id: file * RECORDS + at }));
    return [`in-${file}.jsonl`, `${lines.join('\n')}\n`] as const;
  });
  return folderWith(Object.fromEntries(files));
}

const double = (elements: readonly { id: number }[]) => elements.map(({ id }) => ({ id, twice: 2 * id }));

async function expectWhole(output: string): Promise<void> {
  const names = await readdir(output);
  expect(names.sort()).toEqual(['_PREDICT', '_SUCCESS', ...Array.from({ length: FILES }, (_, split) => `part-0000${split}.jsonl`)]);
  const manifest = JSON.parse(await readFile(`${output}/_SUCCESS`, 'utf8')) as {
    records: number;
    parts: { name: string; records: number }[];
  };
  expect(manifest.parts).toEqual(
    Array.from({ length: FILES }, (_, split) => ({ name: `part-0000${split}.jsonl`, records: RECORDS - split })),
  );
  for (let file = 0; file < FILES; file++) {
    const lines = (await readFile(`${output}/part-0000${file}.jsonl`, 'utf8')).trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual(
      Array.from({ length: RECORDS - file }, (_, at) => ({ id: file * RECORDS + at, twice: 2 * (file * RECORDS + at) })),
    );
  }
}

test('each input file results in one file in the same order, and the report counts the records', async () => {
  const input = await numbers();
  const output = `${await folderWith()}/out`;
  const cluster = worker(0, 1);
  const report = await predict(cluster, jsonl<{ id: number }>(input), double, { output, batchSize: 8 });
  const records = FILES * RECORDS - (FILES * (FILES - 1)) / 2;
  expect(report).toEqual({ output: fileUri(output), parts: FILES, records, written: { parts: FILES, records } });
  await expectWhole(output);
  expect(cluster.reported.at(-1)).toMatchObject({ 'predict/records': records, 'predict/parts': FILES });
  const again = await predict(worker(0, 1), jsonl<{ id: number }>(input), double, { output });
  expect(again).toMatchObject({ records, written: { parts: 0, records: 0 } });
});

test('workers share the splits, and a single worker computes all of them', async () => {
  const input = await numbers();
  const output = `${await folderWith()}/out`;
  const reports = await Promise.all(
    [0, 1, 2].map((index) => predict(worker(index, 3), jsonl<{ id: number }>(input), double, { output, batchSize: 16 })),
  );
  expect(reports.reduce((sum, { written }) => sum + written.parts, 0)).toBe(FILES);
  await expectWhole(output);
  const alone = `${await folderWith()}/out`;
  await predict(worker(2, 5), jsonl<{ id: number }>(input), double, { output: alone });
  await expectWhole(alone);
});

test('an unfinished part of a dead worker does not count as a result; the other workers and its replacement finish', async () => {
  const input = await numbers();
  const output = `${await folderWith()}/out`;
  let calls = 0;
  const dying = (elements: readonly { id: number }[]) => {
    if (++calls === 12) {
      throw new Error('killed');
    }
    return double(elements);
  };
  await expect(predict(worker(0, 2), jsonl<{ id: number }>(input), dying, { output, batchSize: 16, version: '1' })).rejects.toThrow(
    'killed',
  );
  expect((await readdir(output)).filter((name) => name.startsWith('part-'))).toEqual([
    'part-00000.jsonl',
    'part-00002.jsonl',
    'part-00004.jsonl',
  ]);
  await expect(predict(worker(1, 2), jsonl<{ id: number }>(input), double, { output, version: '1' })).rejects.toMatchObject({
    code: 'OUTPUT_MISMATCH',
    message: expect.stringContaining('another model or function'),
  });
  const go = (index: number) => predict(worker(index, 2), jsonl<{ id: number }>(input), dying, { output, batchSize: 16, version: '1' });
  const reports: PredictReport[] = await Promise.all([go(0), go(1)]);
  expect(reports.reduce((sum, { written }) => sum + written.parts, 0)).toBe(FILES - 3);
  await expectWhole(output);
});

test('each part is complete and written once although workers die repeatedly', async () => {
  const input = await numbers();
  for (const seed of [1, 2, 3]) {
    const random = createRandom(seed);
    const output = `${await folderWith()}/out`;
    let deaths = 0;
    let calls = 0;
    const mortal = async (elements: readonly { id: number }[]) => {
      await new Promise((resolve) => setTimeout(resolve, 20 * random()));
      calls++;
      if (deaths < 12 && calls % 3 === 0) {
        deaths++;
        throw new Error('dead');
      }
      return double(elements);
    };
    const task = async (index: number): Promise<PredictReport> => {
      for (;;) {
        try {
          return await predict(worker(index, 4), jsonl<{ id: number }>(input), mortal, { output, batchSize: 10, version: 'mortal' });
        } catch (error) {
          if ((error as Error).message !== 'dead') {
            throw error;
          }
        }
      }
    };
    const reports = await Promise.all([0, 1, 2, 3].map(task));
    expect(deaths).toBe(12);
    expect(calls).toBeGreaterThan(40);
    expect(new Set(reports.map(({ records }) => records)).size).toBe(1);
    await expectWhole(output);
  }
});

test("a worker that writes its count late accepts another worker's result, and neither leaves temporary files", async () => {
  const input = await numbers();
  for (const late of ['before', 'meanwhile'] as const) {
    const output = `${await folderWith()}/out`;
    const other = (): Promise<PredictReport> => predict(worker(1, 2), jsonl<{ id: number }>(input), double, { output });
    let isCounting = false;
    const slow = writingBy(async (uri, data, options) => {
      if (isCounting || !uri.includes('/_counts/') || !(data instanceof Uint8Array)) {
        return storage.write(uri, data, options);
      }
      isCounting = true;
      if (late === 'before') {
        await other();
      }
      async function* pieces(): AsyncIterable<Uint8Array> {
        yield data as Uint8Array;
        if (late === 'meanwhile') {
          await other();
        }
      }
      return storage.write(uri, pieces(), options);
    });
    const report = await predict(worker(0, 2, slow), jsonl<{ id: number }>(input), double, { output });
    expect(isCounting).toBe(true);
    expect(report).toMatchObject({ parts: FILES, written: { parts: 1 } });
    await expectWhole(output);
  }
});

test('predict rejects a folder with other contents', async () => {
  const input = await numbers();
  const output = await folderWith({ 'letter.txt': 'dear' });
  const dataset = jsonl<{ id: number }>(input);
  await expect(predict(worker(0, 1), dataset, double, { output })).rejects.toMatchObject({ code: 'OUTPUT_MISMATCH' });
  const fresh = `${output}/fresh`;
  await predict(worker(0, 1), dataset, double, { output: fresh });
  const other = await numbers();
  await expect(predict(worker(0, 1), jsonl<{ id: number }>(other), double, { output: fresh })).rejects.toThrow(/other input files/);
  await expect(predict(worker(0, 1), dataset, double, { output: fresh, format: 'csv' })).rejects.toThrow(/another format/);
  await expect(predict(worker(0, 1), dataset.batch(2), double as never, { output: fresh })).rejects.toMatchObject({ code: 'DATA_INVALID' });
});

test('a count that a dead worker did not write is recomputed from its part', async () => {
  const input = await numbers();
  for (const [format, compression] of [
    ['jsonl', 'gzip'],
    ['csv', 'none'],
    ['csv', 'gzip'],
    ['tfrecord', 'gzip'],
  ] as const) {
    const output = `${await folderWith()}/out`;
    const dataset = jsonl<{ id: number }>(input);
    const results = (elements: readonly { id: number }[]) =>
      elements.map(({ id }) => (format === 'tfrecord' ? { id: BigInt(id) } : { id, text: `a "quote",\nand ${id}`, none: null }));
    await predict(worker(0, 1), dataset, results, { output, format, compression });
    const before = await readFile(`${output}/_SUCCESS`, 'utf8');
    await storage.remove(fileUri(`${output}/_SUCCESS`));
    await predict(worker(0, 1), dataset, results, { output, format, compression });
    expect(await readFile(`${output}/_SUCCESS`, 'utf8')).toBe(before);
    if (format === 'csv') {
      const rows = await csv<{ id: number; text: string }>(`${output}/part-0*`).toArray({ storage });
      expect(rows[3]).toEqual({ id: 3, text: 'a "quote",\nand 3', none: undefined });
      expect(rows).toHaveLength((JSON.parse(before) as { records: number }).records);
    } else if (format === 'jsonl') {
      const text = gunzipSync(await readFile(`${output}/part-00000.jsonl.gz`)).toString();
      expect(text.split('\n')[3]).toBe('{"id":3,"text":"a \\"quote\\",\\nand 3","none":null}');
    } else {
      const [record] = await tfRecords(`${output}/part-00001*`).toArray({ storage });
      expect(decodeExample(record as Buffer)).toMatchObject({ id: { kind: 'int64', values: BigInt64Array.of(BigInt(RECORDS)) } });
    }
  }
});

test('a model receives batches in its input shape, and no tensor leaks', async () => {
  const model = tf.sequential({
    layers: [tf.layers.flatten({ inputShape: [2, 2, 1] }), tf.layers.dense({ units: 3, kernelInitializer: 'ones', useBias: false })],
  });
  const examples = Array.from({ length: 30 }, (_, id) => encodeExample({ id: BigInt(id), pixels: Float32Array.of(id, 1, 2, 3) }));
  const input = await folderWith({ 'a.tfrecord': tfRecordFile(examples.slice(0, 20)), 'b.tfrecord': tfRecordFile(examples.slice(20)) });
  const output = `${await folderWith()}/out`;
  const dataset = tfRecords(input).map((record) => {
    const { id, pixels } = decodeExample(record);
    return { id: Number(id?.values[0]), pixels: pixels?.values as Float32Array };
  });
  const before = tf.memory().numTensors;
  const report = await predict(worker(0, 1), dataset, model, {
    output,
    batchSize: 8,
    input: ({ pixels }) => pixels,
    result: ({ id }, sums) => ({ id, sums }),
  });
  expect(tf.memory().numTensors).toBe(before);
  expect(report).toMatchObject({ parts: 2, records: 30 });
  const results = await jsonl<{ id: number; sums: number[] }>(`${output}/part-*`).toArray({ storage });
  expect(results).toEqual(Array.from({ length: 30 }, (_, id) => ({ id, sums: [id + 6, id + 6, id + 6] })));
  model.setWeights([tf.zeros([4, 3])]);
  const again = predict(worker(0, 1), dataset, model, { output, input: ({ pixels }) => pixels });
  await expect(again).rejects.toMatchObject({ code: 'OUTPUT_MISMATCH' });
  const [a, b] = [tf.input({ shape: [1], name: 'a' }), tf.input({ shape: [1], name: 'b' })];
  const two = tf.model({
    inputs: [a, b],
    outputs: [tf.layers.add().apply([a, b]), tf.layers.multiply().apply([a, b])] as tf.SymbolicTensor[],
  });
  const other = `${await folderWith()}/out`;
  await predict(worker(0, 1), dataset, two, {
    output: other,
    format: 'csv',
    input: ({ id }) => ({ b: [2], a: [id] }),
    result: ({ id }, [sum, product]: Values[]) => ({ id, sum: sum?.[0], product: product?.[0] }),
  });
  expect((await readFile(`${other}/part-00001.csv`, 'utf8')).split('\n').slice(0, 2)).toEqual(['id,sum,product', '20,22,40']);
  const wrong = predict(worker(0, 1), dataset, two, { output: `${other}2`, input: ({ id }) => ({ c: [id], a: [id] }) });
  await expect(wrong).rejects.toThrow(/the fields c, a, but the model has the inputs a, b/);
});

test('a graph model receives its inputs by name, and no tensor leaks', async () => {
  const [a, b] = [tf.input({ shape: [2], name: 'a' }), tf.input({ shape: [1], name: 'b' })];
  const sum = tf.layers
    .dense({ units: 2, kernelInitializer: 'ones', name: 'sum' })
    .apply(tf.layers.concatenate().apply([a, b])) as tf.SymbolicTensor;
  const layers = tf.model({ inputs: [a, b], outputs: sum });
  const folder = await folderWith({ 'in.jsonl': [1, 2, 3].map((id) => `${JSON.stringify({ id })}\n`).join('') });
  const world = { tf, storage };
  await exportGraphModel(world, layers, fileUri(`${folder}/model`));
  const model = await loadGraphModel(world, fileUri(`${folder}/model`));
  const before = tf.memory().numTensors;
  const dataset = jsonl<{ id: number }>(`${folder}/in.jsonl`);
  const output = `${folder}/out`;
  const options = { output, batchSize: 2, input: ({ id }: { id: number }) => ({ b: [id], a: [id, 10] }) };
  await predict(worker(0, 1), dataset, model, options);
  expect(tf.memory().numTensors).toBe(before);
  expect(await readFile(`${output}/part-00000.jsonl`, 'utf8')).toBe('[12,12]\n[14,14]\n[16,16]\n');
  const again = await predict(worker(0, 1), dataset, await loadGraphModel(world, fileUri(`${folder}/model`)), options);
  expect(again.written.parts).toBe(0);
  layers.setWeights([tf.zeros([3, 2]), tf.zeros([2])]);
  await exportGraphModel(world, layers, fileUri(`${folder}/model`));
  const other = predict(worker(0, 1), dataset, await loadGraphModel(world, fileUri(`${folder}/model`)), options);
  await expect(other).rejects.toMatchObject({ code: 'OUTPUT_MISMATCH' });
});

test('predict runs a graph asynchronously when the graph requires it', async () => {
  const float = { type: 'DT_FLOAT' };
  const node = [
    { name: 'x', op: 'Placeholder', attr: { dtype: float, shape: { shape: { dim: [{ size: -1 }, { size: 1 }] } } } },
    { name: 'zero', op: 'Const', attr: { dtype: float, value: { tensor: { dtype: 'DT_FLOAT', tensorShape: {} } } } },
    { name: 'above', op: 'Greater', input: ['x', 'zero'], attr: { T: float } },
    { name: 'where', op: 'Where', input: ['above'], attr: { T: { type: 'DT_BOOL' } } },
  ];
  const artifacts = {
    modelTopology: { node, library: {}, versions: { producer: 1 } },
    weightSpecs: [{ name: 'zero', shape: [], dtype: 'float32' as const }],
    weightData: new ArrayBuffer(4),
  };
  const model = await tf.loadGraphModel({ load: async () => artifacts });
  const input = await folderWith({ 'in.jsonl': '{"id":5}\n{"id":6}\n{"id":7}\n' });
  const output = `${input}/out`;
  const before = tf.memory().numTensors;
  await predict(worker(0, 1), jsonl<{ id: number }>(`${input}/in.jsonl`), model, { output, batchSize: 2, input: ({ id }) => [id] });
  expect(tf.memory().numTensors).toBe(before);
  expect(await readFile(`${output}/part-00000.jsonl`, 'utf8')).toBe('[0,0]\n[1,0]\n[0,0]\n');
});

test('predict rejects a function that does not return a result for each element', async () => {
  const input = await numbers();
  const dataset = jsonl<{ id: number }>(input);
  const output = `${await folderWith()}/out`;
  await expect(predict(worker(0, 1), dataset, (elements) => elements.slice(1), { output })).rejects.toThrow(/for 50 elements/);
  expect((await readdir(output)).filter((name) => name.startsWith('part-'))).toEqual([]);
});

test('reading waits for storage, so that memory stays bounded', async () => {
  const input = await folderWith({ 'a.jsonl': `${Array.from({ length: 40_000 }, (_, id) => JSON.stringify({ id })).join('\n')}\n` });
  const output = `${await folderWith()}/out`;
  let computed = 0;
  let taken = 0;
  let ahead = 0;
  async function* watched(pieces: AsyncIterable<Uint8Array>) {
    for await (const piece of pieces) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      ahead = Math.max(ahead, computed - taken);
      taken += piece.toString().split('\n').length - 1;
      yield piece;
    }
  }
  const slow = writingBy((uri, data, options) => {
    const opened = openSource(data);
    return storage.write(uri, opened instanceof Uint8Array ? opened : watched(opened), options);
  });
  const results = (elements: readonly { id: number }[]) => {
    computed += elements.length;
    return elements.map(({ id }) => ({ id, text: 'x'.repeat(1000) }));
  };
  await predict(worker(0, 1, slow), jsonl<{ id: number }>(input), results, { output });
  expect(taken).toBe(40_000);
  // A piece of 256 KiB contains about 260 records. A few pieces may be pending.
  expect(ahead).toBeLessThan(3000);
});
