import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { FusedOptimizer } from './fused-optimizer.ts';
import { installNativeKernels, nativeKernelsOf, uninstallNativeKernels } from './native-kernels.ts';

test('on other backends, no native kernels are installed and TensorFlow.js takes the steps', async () => {
  await tf.setBackend('cpu');
  const own = tf.getGradient('Relu');
  installNativeKernels(tf);
  expect(nativeKernelsOf(tf)).toBeNull();
  expect(tf.getGradient('Relu')).toBe(own);
  uninstallNativeKernels(tf);
  expect(tf.getGradient('Relu')).toBe(own);
  const variable = tf.variable(tf.tensor1d([1, 2]));
  const optimizer = tf.train.momentum(0.5, 0.9);
  const fused = new FusedOptimizer(tf, optimizer);
  expect(fused.reason).toBe('native kernels are not installed');
  const tensor = tf.tensor1d([1, 1]);
  fused.apply([{ name: variable.name, tensor }]);
  expect([...variable.dataSync()]).toEqual([0.5, 1.5]);
  expect(optimizer.iterations).toBe(1);
  fused.dispose();
});
