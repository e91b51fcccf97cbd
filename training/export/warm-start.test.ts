import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import * as tf from '@tensorflow/tfjs';
import { afterEach, describe, expect, test } from 'vitest';
import { CheckpointStore } from '../../contract/checkpoint/checkpoint-store.ts';
import { folder as newFolder } from '../../contract/testing/folder.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { fileUri, joinUri } from '../../storage/uri.ts';
import { inspectModel } from '../model/compiled-model.ts';
import { captureState } from '../model/training-state.ts';
import { exportGraphModel } from './graph-model.ts';
import { exportLayersModel } from './layers-model.ts';
import { writeModelFiles } from './model-files.ts';
import { Models } from './models.ts';

afterEach(() => {
  tf.disposeVariables();
});

const storage = new FileStorage();
const { layers } = tf;

async function open(): Promise<{ models: Models; store: CheckpointStore; uri: string; notices: string[] }> {
  const folder = await newFolder();
  const uri = fileUri(folder);
  const store = new CheckpointStore(storage, joinUri(uri, 'checkpoints'));
  const notices: string[] = [];
  return {
    models: new Models({
      tf,
      storage,
      store,
      uriOf: (place) => place,
      outputUriOf: (place) => place,
      onNotice: (message) => notices.push(message),
    }),
    store,
    uri,
    notices,
  };
}

/** A model with layers named `body`, `norm` and `head`, or with TensorFlow.js's default names. */
function network(classes: number, named = true): tf.LayersModel {
  const name = (text: string) => (named ? { name: text } : {});
  return tf.sequential({
    layers: [
      layers.dense({ units: 4, inputShape: [3], ...name('body') }),
      layers.batchNormalization(name('norm')),
      layers.dense({ units: classes, ...name('head') }),
    ],
  });
}

function valuesOf(model: tf.LayersModel): number[][] {
  return model.getWeights().map((weight) => [...weight.dataSync()]);
}

describe('a warm start', () => {
  test('a warm start copies all weights of an equal model by name', async () => {
    const { models, uri, notices } = await open();
    const [from, to] = [network(2), network(2)];
    await exportLayersModel({ tf, storage }, from, uri);
    const before = tf.memory().numTensors;
    const { taken, left, unused } = await models.warmStart(to, uri);
    expect(tf.memory().numTensors).toBe(before);
    expect(valuesOf(to)).toEqual(valuesOf(from));
    expect([taken.length, left, unused]).toEqual([8, [], []]);
    expect(taken[0]).toEqual({ name: 'body/kernel', from: 'body/kernel' });
    expect(notices).toEqual([`copied 8 of 8 weights from ${uri}`]);
  });

  test('a warm start skips and reports a head of another size with skipMismatched, and otherwise fails without changes', async () => {
    const { models, uri, notices } = await open();
    const [from, to] = [network(2), network(5)];
    await exportLayersModel({ tf, storage }, from, uri);
    const before = valuesOf(to);
    await expect(models.warmStart(to, uri)).rejects.toMatchObject({
      code: 'WARM_START_MISMATCH',
      message: expect.stringMatching(/^weight head\/kernel does not fit: it is float32 \[4,5\], and head\/kernel is float32 \[4,2\] in /),
    });
    expect(valuesOf(to)).toEqual(before);
    const { taken, left, unused } = await models.warmStart(to, uri, { skipMismatched: true });
    expect(taken).toHaveLength(6);
    expect(left.map(({ name }) => name)).toEqual(['head/kernel', 'head/bias']);
    expect(unused).toEqual(['head/kernel', 'head/bias']);
    expect(valuesOf(to).slice(0, 2)).toEqual(valuesOf(from).slice(0, 2));
    expect(valuesOf(to).slice(4, 6)).toEqual(before.slice(4, 6));
    expect(notices[0]).toMatch(
      /^copied 6 of 8 weights from .*; unchanged: head\/kernel \(is float32 \[4,5\], .*; unused weights .*: head\/kernel, head\/bias$/,
    );
  });

  test('a warm start copies only the requested layers', async () => {
    const { models, uri } = await open();
    const [from, to] = [network(2), network(5)];
    await exportLayersModel({ tf, storage }, from, uri);
    const { taken } = await models.warmStart(to, uri, { layers: ['norm'] });
    expect(taken.map(({ name }) => name)).toEqual(['norm/gamma', 'norm/beta', 'norm/moving_mean', 'norm/moving_variance']);
    await expect(models.warmStart(to, uri, { layers: ['nose'] })).rejects.toThrow(/no layer nose; its layers are body, norm, head/);
  });

  test('a warm start matches weights by order when the models have no names in common', async () => {
    const { models, uri } = await open();
    const [from, to] = [network(2, false), network(2)];
    await exportLayersModel({ tf, storage }, from, uri);
    await models.warmStart(to, uri);
    expect(valuesOf(to)).toEqual(valuesOf(from));
    const other = network(3);
    await models.warmStart(other, from, { by: 'order', skipMismatched: true });
    expect(valuesOf(other).slice(0, 2)).toEqual(valuesOf(from).slice(0, 2));
    await expect(models.warmStart(other, uri, { by: 'name' })).rejects.toThrow(
      /^no weight of .* fits the model: body\/kernel has no match in the source/,
    );
  });

  test('a warm start accepts a GraphModel, stored and in memory', async () => {
    const { models, uri } = await open();
    const from = network(2);
    await exportGraphModel({ tf, storage }, from, uri);
    for (const source of [uri, await models.loadGraphModel(uri)]) {
      const to = network(2);
      const { taken } = await models.warmStart(to, source);
      expect(taken).toHaveLength(8);
      expect(valuesOf(to)).toEqual(valuesOf(from));
    }
  });

  test('a warm start decodes quantised weights', async () => {
    const { models, uri } = await open();
    const weight = {
      name: 'body/kernel',
      shape: [3, 4],
      dtype: 'float32' as const,
      quantization: { dtype: 'uint8' as const, scale: 0.5, min: -2 },
    };
    await writeModelFiles(storage, uri, {
      modelTopology: {},
      weightSpecs: [weight],
      weightData: Uint8Array.from({ length: 12 }, (_, at) => at).buffer,
    });
    const to = network(2);
    const { left } = await models.warmStart(to, uri);
    expect(valuesOf(to)[0]).toEqual(Array.from({ length: 12 }, (_, at) => at * 0.5 - 2));
    expect(left).toHaveLength(7);
  });

  test('ignores the optimizer of a stored model, and accepts a checkpoint', async () => {
    const { models, store, uri } = await open();
    const [from, to] = [network(2), network(2)];
    from.compile({ optimizer: 'adam', loss: 'meanSquaredError' });
    await from.trainOnBatch(tf.ones([4, 3]), tf.ones([4, 2]));
    await exportLayersModel({ tf, storage }, from, uri, { includeOptimizer: true });
    expect((await models.warmStart(to, uri)).unused).toEqual([]);
    expect(valuesOf(to)).toEqual(valuesOf(from));
    const position = { step: 3, phase: { name: 'fit-1', start: 0 }, epoch: 1, examples: 0, seed: 1, iterations: 1, final: false };
    const checkpoint = await store.save(
      { position, tensors: await captureState(tf, inspectModel(tf, from)) },
      { jobId: 'a', generation: 1 },
    );
    for (const source of [checkpoint, 'latest']) {
      const again = network(2);
      expect((await models.warmStart(again, source)).unused).toEqual([]);
      expect(valuesOf(again)).toEqual(valuesOf(from));
    }
  });
});

describe('a checkpoint', () => {
  test('a checkpoint can be loaded as the newest, as the best, by its path or by its folder, and then exported', async () => {
    const { models, store, uri } = await open();
    const values: number[][][] = [];
    await expect(models.loadCheckpoint('latest', network(2))).rejects.toMatchObject({ code: 'NOT_FOUND' });
    for (const step of [1, 2]) {
      const model = network(2);
      model.compile({ optimizer: 'sgd', loss: 'meanSquaredError' });
      values.push(valuesOf(model));
      const position = { step, phase: { name: 'fit-1', start: 0 }, epoch: 0, examples: 0, seed: 1, iterations: step, final: false };
      await store.save({ position, tensors: await captureState(tf, inspectModel(tf, model)) }, { jobId: 'a', generation: 1 });
    }
    await expect(models.loadCheckpoint('best', network(2))).rejects.toThrow(/is marked as the best/);
    await store.marks.setBest({ step: 1, metric: 'loss', value: 1, mode: 'min' });
    const model = network(2);
    for (const [which, step] of [
      ['latest', 2],
      ['best', 1],
      [joinUri(store.dir, 'step-2'), 2],
      [store.dir, 2],
    ] as const) {
      expect(await models.loadCheckpoint(which, model)).toMatchObject({ step, epoch: 0, final: false });
      expect(valuesOf(model)).toEqual(values[step - 1]);
    }
    await models.exportLayersModel(model, joinUri(uri, 'exported'));
    expect(valuesOf(await models.loadLayersModel(joinUri(uri, 'exported', 'model.json')))).toEqual(values[1]);
    await expect(models.loadCheckpoint('best', network(3))).rejects.toMatchObject({ code: 'CHECKPOINT_MISMATCH' });
  });
});

test('exports resolve relative paths in the output folder, and loads in the folder of the program', async () => {
  const output = await newFolder();
  const models = new Models({
    ...{ tf, storage: new FileStorage(), store: null, onNotice: () => {} },
    uriOf: (place) => fileUri(join('/nowhere', place)),
    outputUriOf: (place) => fileUri(join(output, place)),
  });
  const model = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [2] })] });
  await models.exportLayersModel(model, 'digits');
  expect(await readdir(join(output, 'digits'))).toContain('model.json');
  await expect(models.loadLayersModel('digits')).rejects.toThrow('/nowhere/digits');
});
