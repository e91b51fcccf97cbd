import * as tf from '@tensorflow/tfjs';
import { afterAll, describe, expect, test } from 'vitest';
import { loadBackend, refuseUnfitModel } from './backend.ts';

afterAll(async () => {
  await tf.setBackend('cpu');
});

describe('backends', () => {
  test('reject an unknown name', async () => {
    await expect(loadBackend(1, { TONY_BACKEND: 'fast' })).rejects.toMatchObject({
      code: 'BACKEND_NOT_FOUND',
      hint: 'Use one of gpu, native, wasm, cpu.',
    });
  });

  test('backends share the instance of TensorFlow.js that the program imports', async () => {
    const environment = { TONY_BACKEND: 'cpu' };
    const { tf: loaded } = await loadBackend(1, environment);
    expect(loaded.Tensor).toBe(tf.Tensor);
    expect(tf.getBackend()).toBe('cpu');
    expect(environment).toMatchObject({ TF_CPP_MIN_LOG_LEVEL: '2', TF_NUM_INTRAOP_THREADS: expect.stringMatching(/^\d+$/) });
  });
});

describe('the wasm backend', () => {
  test('throws for the gradient of max pooling instead of computing it incorrectly', async () => {
    await loadBackend(1, { TONY_BACKEND: 'wasm' });
    expect(tf.getBackend()).toBe('wasm');
    const gradient = () => tf.tidy(() => tf.grad((x) => tf.maxPool(x as tf.Tensor4D, 2, 2, 'valid').sum())(tf.randomNormal([1, 4, 4, 1])));
    expect(gradient).toThrow(/Kernel 'MaxPoolGrad' not registered for backend 'wasm'/);
  });

  test('rejects models with a layer that it cannot train correctly, including nested and wrapped layers', () => {
    const inner = tf.sequential({
      layers: [tf.layers.conv2d({ filters: 2, kernelSize: 3, inputShape: [8, 8, 1], name: 'hidden' }), tf.layers.flatten()],
    });
    const nested = tf.sequential({ layers: [inner, tf.layers.dense({ units: 1 })] });
    expect(() => refuseUnfitModel('wasm', nested)).toThrow(/cannot train hidden \(Conv2D\)/);
    expect(() => refuseUnfitModel('native', nested)).not.toThrow();
    const wrapped = tf.sequential({
      layers: [tf.layers.timeDistributed({ layer: tf.layers.maxPooling1d({ poolSize: 2, name: 'pool' }), inputShape: [3, 4, 2] })],
    });
    expect(() => refuseUnfitModel('wasm', wrapped)).toThrow(/pool \(MaxPooling1D\)/);
    const dense = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [2] }), tf.layers.batchNormalization()] });
    expect(() => refuseUnfitModel('wasm', dense)).not.toThrow();
  });
});
