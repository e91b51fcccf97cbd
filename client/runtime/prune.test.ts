import { describe, expect, it } from 'vitest';
import { isNeeded } from './prune.ts';

describe('isNeeded', () => {
  it.each([
    '@tensorflow',
    '@tensorflow/tfjs',
    '@tensorflow/tfjs/package.json',
    '@tensorflow/tfjs/dist/tf.node.js',
    '@tensorflow/tfjs-core/dist/tf-core.node.js',
    '@tensorflow/tfjs-core/dist/public/chained_ops/register_all_chained_ops.js',
    '@tensorflow/tfjs-core/dist/register_all_gradients.js',
    '@tensorflow/tfjs-backend-wasm/wasm-out/tfjs-backend-wasm-simd.wasm',
    '@tensorflow/tfjs-node/lib/napi-v8/tfjs_binding.node',
    '@tensorflow/tfjs-node/deps/lib/libtensorflow_cc.so.2',
    '@tensorflow/tfjs-node-gpu/deps/nvidia/cudnn/lib/libcudnn.so.9',
    '@mapbox/node-pre-gyp/lib/util/abi_crosswalk.json',
    'long/LICENSE',
    'long/src/long.js',
  ])('keeps %s', (file) => expect(isNeeded(file)).toBe(true));

  it.each([
    '@tensorflow/tfjs/dist/tf.min.js',
    '@tensorflow/tfjs/dist/tf.js',
    '@tensorflow/tfjs/dist/tf.es2017.min.js',
    '@tensorflow/tfjs-core/dist/tf-core.fesm.js',
    '@tensorflow/tfjs-core/dist/tf-core.node.js.map',
    '@tensorflow/tfjs-core/dist/tensor_test.js',
    '@tensorflow/tfjs-core/dist/tensor.d.ts',
    '@tensorflow/tfjs-data/dist/miniprogram',
    '@tensorflow/tfjs-node/binding',
    '@tensorflow/tfjs-node/binding.gyp',
    '@tensorflow/tfjs-node/scripts/install.js',
    '@types',
    'core-js',
    'tar',
    'minizlib',
    'function-bind/test',
    'long/README.md',
  ])('drops %s', (file) => expect(isNeeded(file)).toBe(false));
});
