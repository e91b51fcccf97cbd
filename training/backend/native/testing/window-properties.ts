// Runs on the runtime's Node.js, which has the native backend. For each property, prints `NAME ok` or `NAME: the error`. Finally prints
// `done`.
import fc from 'fast-check';
import { createVector } from '../../../ring/ring-vector.ts';
import { loadBackend } from '../../backend.ts';
import { ALIGNMENT, MemoryWindow, type WindowPlace } from '../memory-window.ts';
import type { NativeBackend } from '../native-backend.ts';
import { nativeKernelsOf } from '../native-kernels.ts';
import { equal, holds } from './properties.ts';

const { tf } = await loadBackend(1, process.env);
const native = nativeKernelsOf(tf) as NativeBackend;

const shapes = fc.array(fc.array(fc.integer({ min: 1, max: 9 }), { maxLength: 4 }), { minLength: 1, maxLength: 5 });
const sizeOf = (shape: readonly number[]) => shape.reduce((product, length) => product * length, 1);

function placesOf(shapes: readonly number[][]): { places: WindowPlace[]; length: number } {
  let length = 0;
  const places = shapes.map((shape) => {
    const at = length;
    length += Math.ceil(sizeOf(shape) / ALIGNMENT) * ALIGNMENT;
    return { at, shape };
  });
  return { places, length };
}

await holds("TensorFlow reads and writes the ring's memory in place", () => {
  fc.assert(
    fc.property(shapes, fc.integer({ min: 1, max: 1e6 }), (shapes, seed) => {
      const before = tf.memory().numTensors;
      const { places, length } = placesOf(shapes);
      const { numbers } = createVector(length + 1);
      numbers.fill(7);
      const window = MemoryWindow.open(native, numbers, places) as MemoryWindow;
      places.forEach(({ at, shape }, index) => {
        const value = tf.tidy(() => tf.randomNormal([...shape], 0, 1, 'float32', seed).mul(1e-20));
        window.write(index, value);
        equal([...numbers.subarray(at, at + sizeOf(shape))], [...value.dataSync()]);
        value.dispose();
      });
      equal(numbers[length], 7);
      numbers.forEach((_, index) => {
        numbers[index] = index;
      });
      window.tensors.forEach((tensor, index) => {
        const { at, shape } = places[index] as WindowPlace;
        equal(tensor.shape, shape);
        // TensorFlow reads the tensor's memory only when a kernel runs.
        equal(
          tf.tidy(() => [...tf.neg(tensor).dataSync()]),
          Array.from({ length: sizeOf(shape) }, (_, offset) => -(at + offset)),
        );
      });
      window.dispose();
      equal(tf.memory().numTensors, before);
    }),
    { numRuns: 30 },
  );
});

await holds('no window opens on memory that TensorFlow would copy', () => {
  const before = tf.memory().numTensors;
  const { numbers } = createVector(100);
  equal(MemoryWindow.open(native, numbers, [{ at: 1, shape: [3, 5] }]), null);
  equal(tf.memory().numTensors, before);
});

console.log('done');
