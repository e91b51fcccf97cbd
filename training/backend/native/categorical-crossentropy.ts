import type * as tfjs from '@tensorflow/tfjs';
import { nativeKernelsOf } from './native-kernels.ts';

export type LossFunction = (target: tfjs.Tensor, output: tfjs.Tensor) => tfjs.Tensor;

/** TensorFlow.js's epsilon. As in TensorFlow.js, LEAST and MOST are rounded to float32. */
const EPSILON = 1e-7;
const LEAST = Math.fround(EPSILON);
const MOST = Math.fround(1 - EPSILON);

/**
 * Returns a faster version of TensorFlow.js's `categoricalCrossentropy`. TensorFlow.js runs forty small operations for the loss and its
 * gradient. For small tensors, this version instead makes one JavaScript pass over the probabilities p. With q = p / sum(p), for each
 * example:
 *
 *   loss      - sum(t log(clipped q))
 *   gradient  (g - sum(g q)) / sum(p), with g = 0 where q is clipped, and g = - t / q elsewhere
 *
 * The targets t have no gradient.
 *
 * @param own TensorFlow.js's loss, which handles all other cases.
 */
export function categoricalCrossentropy(tf: typeof tfjs, own: LossFunction): LossFunction {
  return (target, output) => {
    const isAlike = target.dtype !== 'complex64' && tf.util.arraysEqual(target.shape, output.shape);
    return isAlike && fits(tf, output) ? inOnePass(tf, target.dataSync() as Float32Array, output) : own(target, output);
  };
}

/**
 * Returns a faster version of TensorFlow.js's `sparseCategoricalCrossentropy`, which takes one class index per example as the target. An
 * example whose class index is invalid has no target. As in TensorFlow.js, p is clipped before it is divided by the sum, and clipped
 * probabilities have no gradient.
 */
export function sparseCategoricalCrossentropy(tf: typeof tfjs, own: LossFunction): LossFunction {
  return (target, output) => {
    const isOfEach = target.dtype === 'float32' && target.size * (output.shape.at(-1) ?? 0) === output.size;
    if (!isOfEach || !fits(tf, output)) {
      return own(target, output);
    }
    const within = tf.customGrad((given) => {
      const p = (given as tfjs.Tensor).dataSync() as Float32Array;
      const gradFunc = (dy: tfjs.Tensor) => {
        const gradient = dy.dataSync() as Float32Array;
        return tf.tensor(
          p.map((each, at) => (each === clipped(each) ? (gradient[at] as number) : 0)),
          output.shape,
        );
      };
      return { value: tf.tensor(p.map(clipped), output.shape), gradFunc };
    })(output);
    return inOnePass(tf, oneHot(target.dataSync() as Float32Array, output.shape.at(-1) as number), within);
  };
}

function oneHot(labels: Float32Array, classes: number): Float32Array {
  const targets = new Float32Array(labels.length * classes);
  labels.forEach((label, example) => {
    const target = Math.floor(label);
    if (target >= 0 && target < classes) {
      targets[example * classes + target] = 1;
    }
  });
  return targets;
}

function fits(tf: typeof tfjs, output: tfjs.Tensor): boolean {
  // Only TensorFlow.js's own loss has second-order gradients.
  const isFirstOrder = tf.engine().state.gradientDepth === 1;
  return isFirstOrder && output.rank > 1 && output.dtype === 'float32' && nativeKernelsOf(tf)?.isFasterInJavaScript(output) === true;
}

/** @param t one target for each number in `output`. */
function inOnePass(tf: typeof tfjs, t: Float32Array, output: tfjs.Tensor): tfjs.Tensor {
  const classes = output.shape.at(-1) as number;
  const examples = output.shape.slice(0, -1);
  const compute = tf.customGrad((given) => {
    const p = (given as tfjs.Tensor).dataSync() as Float32Array;
    const count = p.length / classes;
    const losses = new Float32Array(count);
    const sums = new Float32Array(count);
    for (let example = 0; example < count; example++) {
      const from = example * classes;
      let sum = 0;
      for (let at = from; at < from + classes; at++) {
        sum += p[at] as number;
      }
      sums[example] = sum;
      // The loss starts as NaN if a probability is NaN or infinite, and as 0 otherwise.
      let loss = sum * 0;
      for (let at = from; at < from + classes; at++) {
        if (t[at] !== 0) {
          loss -= (t[at] as number) * Math.log(clipped(Math.fround((p[at] as number) / (sums[example] as number))));
        }
      }
      losses[example] = loss;
    }
    const gradFunc = (dy: tfjs.Tensor) => tf.tensor(gradientOf(p, t, sums, dy.dataSync() as Float32Array, classes), output.shape);
    return { value: tf.tensor(losses, examples), gradFunc };
  });
  return compute(output);
}

function gradientOf(p: Float32Array, t: Float32Array, sums: Float32Array, dy: Float32Array, classes: number): Float32Array {
  const gradient = new Float32Array(p.length);
  sums.forEach((sum, example) => {
    const from = example * classes;
    const ofLoss = (at: number): number => {
      const q = Math.fround((p[at] as number) / sum);
      return t[at] === 0 || q < LEAST || q > MOST ? 0 : -((t[at] as number) * (dy[example] as number)) / q;
    };
    let inner = 0;
    for (let at = from; at < from + classes; at++) {
      inner += ofLoss(at) * ((p[at] as number) / sum);
    }
    for (let at = from; at < from + classes; at++) {
      gradient[at] = (ofLoss(at) - inner) / sum;
    }
  });
  return gradient;
}

/** Clamps q to the range from LEAST to MOST. NaN stays NaN. */
function clipped(q: number): number {
  return q < LEAST ? LEAST : q > MOST ? MOST : q;
}
