import type * as tfjs from '@tensorflow/tfjs';
import { nativeKernelsOf } from './native-kernels.ts';

export type LossFunction = (target: tfjs.Tensor, output: tfjs.Tensor) => tfjs.Tensor;

/** As TensorFlow.js has it, in float32. */
const EPSILON = 1e-7;
const LEAST = Math.fround(EPSILON);
const MOST = Math.fround(1 - EPSILON);

/**
 * TensorFlow.js's categoricalCrossentropy, which is forty small operations with its gradient, in one pass of JavaScript over the classes'
 * probabilities where there are few enough of them. With q = p / sum(p), for each example:
 *
 *   loss      - sum(t log(clipped q))
 *   gradient  (g - sum(g q)) / sum(p), g = - t / q where q is not clipped, and 0 where it is
 *
 * Targets are data: they get no gradient.
 *
 * @param own TensorFlow.js's; for what does not fit.
 */
export function categoricalCrossentropy(tf: typeof tfjs, own: LossFunction): LossFunction {
  return (target, output) => {
    const isAlike = target.dtype !== 'complex64' && tf.util.arraysEqual(target.shape, output.shape);
    return isAlike && fits(tf, output) ? inOnePass(tf, target.dataSync() as Float32Array, output) : own(target, output);
  };
}

/**
 * The same of numbers of classes, one for each example; one that is no class counts as no target. TensorFlow.js clips p before it divides by
 * the sum: what is clipped there gets no gradient.
 */
export function sparseCategoricalCrossentropy(tf: typeof tfjs, own: LossFunction): LossFunction {
  return (target, output) => {
    const isOfEach = target.dtype === 'float32' && target.size * (output.shape.at(-1) ?? 0) === output.size;
    if (!isOfEach || !fits(tf, output)) return own(target, output);
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
    if (target >= 0 && target < classes) targets[example * classes + target] = 1;
  });
  return targets;
}

function fits(tf: typeof tfjs, output: tfjs.Tensor): boolean {
  // A gradient of this gradient could not be computed.
  const isFirstOrder = tf.engine().state.gradientDepth === 1;
  return isFirstOrder && output.rank > 1 && output.dtype === 'float32' && nativeKernelsOf(tf)?.isAtHand(output) === true;
}

/** @param t as many as `output` has. */
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
      for (let at = from; at < from + classes; at++) sum += p[at] as number;
      sums[example] = sum;
      // Not a number where one of them is none.
      let loss = sum * 0;
      for (let at = from; at < from + classes; at++) {
        if (t[at] !== 0) loss -= (t[at] as number) * Math.log(clipped(Math.fround((p[at] as number) / (sums[example] as number))));
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
    for (let at = from; at < from + classes; at++) inner += ofLoss(at) * ((p[at] as number) / sum);
    for (let at = from; at < from + classes; at++) gradient[at] = (ofLoss(at) - inner) / sum;
  });
  return gradient;
}

/** Not a number stays what it is. */
function clipped(q: number): number {
  return q < LEAST ? LEAST : q > MOST ? MOST : q;
}
