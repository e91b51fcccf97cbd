import type * as tfjs from '@tensorflow/tfjs';
import { NativeBackend, sameShape } from './native-backend.ts';

/*
 * Computes gradients with single TensorFlow kernels, where TensorFlow.js runs many small operations. A kernel is used only if it computes
 * the same result within float tolerance, even for equal values and for zeros.
 *
 * - Relu6, Selu and LeakyRelu keep TensorFlow.js's gradients, because TensorFlow's slopes differ at 6 and at 0.
 * - TensorFlow has no gradient kernel for Softmax. Small tensors use JavaScript.
 * - MaxPool on a CPU uses the oneDNN kernels, as TensorFlow's own graphs do. They take a tenth of MaxPoolGrad's time, although the forward
 *   pass is repeated to fill the workspace that the gradient needs.
 * - Without oneDNN, MaxPool uses Dilation2DBackpropInput with a filter of zeros, in about half of MaxPoolGrad's time. The sums are the
 *   same, because Dilation2DBackpropInput also picks the first of several equal values.
 * - On a GPU, MaxPoolGrad is already fast, so it stays in use.
 */

type Gradients = Readonly<Record<string, () => tfjs.Tensor>>;

/**
 * Returns the gradients computed by native kernels, or null if the kernels do not support these tensors.
 * @param own computes the gradients as TensorFlow.js does.
 */
type NativeGradient = (
  native: NativeBackend,
  dy: tfjs.Tensor,
  saved: readonly tfjs.Tensor[],
  attributes: tfjs.NamedAttrMap,
  own: () => Gradients,
) => Gradients | null;

const NATIVE_GRADIENTS: Readonly<Record<string, NativeGradient>> = {
  Add: addGradient,
  FusedBatchNorm: batchNormGradient,
  MaxPool: maxPoolGradient,
  Mean: meanGradient,
  Multiply: multiplyGradient,
  Relu: (native, dy, [x]) => (isFloat(x) ? { x: () => native.run('ReluGrad', [dy, x]) } : null),
  Sigmoid: (native, dy, [y]) => (isFloat(y) ? { x: () => native.run('SigmoidGrad', [y, dy]) } : null),
  Softmax: softmaxGradient,
  Softplus: (native, dy, [x]) => (isFloat(x) ? { x: () => native.run('SoftplusGrad', [dy, x]) } : null),
  Sum: sumGradient,
  Tanh: (native, dy, [y]) => (isFloat(y) ? { x: () => native.run('TanhGrad', [y, dy]) } : null),
  Tile: tileGradient,
};

const WITH_NATIVE_GRADIENT: readonly string[] = Object.keys(NATIVE_GRADIENTS);

/**
 * Returns a gradient function that uses native kernels where possible, and TensorFlow.js's own function otherwise. Returns null if the
 * operation has no native gradient. Native kernels compute only first-order gradients.
 */
function nativeGradientOf(native: NativeBackend, own: tfjs.GradConfig): tfjs.GradConfig | null {
  const gradient = NATIVE_GRADIENTS[own.kernelName];
  return gradient === undefined ? null : { ...own, gradFunc: gradientOf(native, own, gradient) };
}

function gradientOf(native: NativeBackend, own: tfjs.GradConfig, gradient: NativeGradient): tfjs.GradConfig['gradFunc'] {
  const engine = native.tf.engine();
  const backend = native.tf.getBackend();
  return (dy, saved, attributes) => {
    const ownGradients = () => own.gradFunc(dy, saved, attributes) as Gradients;
    // TensorFlow.js does not record native kernel calls, so its own function must compute second-order gradients.
    const isFirstOrder = engine.state.gradientDepth === 0;
    const isNative = isFirstOrder && engine.backendName === backend && !Array.isArray(dy) && dy.dtype === 'float32';
    return (isNative ? gradient(native, dy, saved, attributes, ownGradients) : null) ?? ownGradients();
  };
}

function isFloat(tensor: tfjs.Tensor | undefined): tensor is tfjs.Tensor {
  return tensor?.dtype === 'float32';
}

function addGradient(native: NativeBackend, dy: tfjs.Tensor, saved: readonly tfjs.Tensor[], _attributes: object, own: () => Gradients) {
  const [a, b] = saved as [tfjs.Tensor, tfjs.Tensor];
  const derivativeOf = (input: tfjs.Tensor, name: 'a' | 'b') => () => {
    if (sameShape(input.shape, dy.shape)) {
      return native.share(dy);
    }
    if (isVectorOfLast(input.shape, dy.shape)) {
      return reshaped(native, native.run('BiasAddGrad', [dy], [native.text('data_format', 'NHWC')]), input.shape);
    }
    return (own()[name] as () => tfjs.Tensor)();
  };
  return { a: derivativeOf(a, 'a'), b: derivativeOf(b, 'b') };
}

function multiplyGradient(
  native: NativeBackend,
  dy: tfjs.Tensor,
  saved: readonly tfjs.Tensor[],
  _attributes: object,
  own: () => Gradients,
) {
  const [a, b] = saved as [tfjs.Tensor, tfjs.Tensor];
  const derivativeOf = (input: tfjs.Tensor, other: tfjs.Tensor, name: 'a' | 'b') => () =>
    isFloat(other) && sameShape(input.shape, dy.shape) ? native.run('Mul', [dy, other]) : (own()[name] as () => tfjs.Tensor)();
  return { a: derivativeOf(a, b, 'a'), b: derivativeOf(b, a, 'b') };
}

function sumGradient(native: NativeBackend, dy: tfjs.Tensor, [x]: readonly tfjs.Tensor[], attributes: tfjs.NamedAttrMap) {
  return isFloat(x) ? { x: () => spread(native, dy, x.shape, attributes) } : null;
}

function meanGradient(native: NativeBackend, dy: tfjs.Tensor, [x]: readonly tfjs.Tensor[], attributes: tfjs.NamedAttrMap) {
  if (!isFloat(x)) {
    return null;
  }
  return { x: () => spread(native, native.run('RealDiv', [dy, native.tf.scalar(x.size / dy.size)]), x.shape, attributes) };
}

function spread(native: NativeBackend, dy: tfjs.Tensor, shape: readonly number[], attributes: tfjs.NamedAttrMap): tfjs.Tensor {
  const { tf } = native;
  const axes = tf.util.parseAxisParam(attributes.axis as number | number[], [...shape]);
  const kept = shape.map((size, axis) => (axes.includes(axis) ? 1 : size));
  const wanted = tf.tensor1d([...shape], 'int32');
  return native.run('BroadcastTo', [reshaped(native, dy, kept), wanted], [native.integerType('Tidx')]);
}

/** Sums dy over the repetitions. TensorFlow.js adds slices, one for each repetition. */
function tileGradient(native: NativeBackend, dy: tfjs.Tensor, [x]: readonly tfjs.Tensor[], attributes: tfjs.NamedAttrMap) {
  if (!isFloat(x)) {
    return null;
  }
  const { reps } = attributes as unknown as { readonly reps: readonly number[] };
  const split = x.shape.flatMap((size, axis) => [reps[axis] as number, size]);
  const axes = native.tf.tensor1d(
    x.shape.map((_, axis) => 2 * axis),
    'int32',
  );
  return { x: () => native.run('Sum', [reshaped(native, dy, split), axes], [native.flag('keep_dims', false), native.integerType('Tidx')]) };
}

/** Computes y (dy - sum(dy y)). The sum runs over the last dimension, the only one that TensorFlow.js's softmax supports. */
function softmaxGradient(native: NativeBackend, dy: tfjs.Tensor, [y]: readonly tfjs.Tensor[]) {
  if (!isFloat(y) || !native.isFasterInJavaScript(y)) {
    return null;
  }
  return {
    logits: () => {
      const [given, outputs] = [dy.dataSync() as Float32Array, y.dataSync() as Float32Array];
      const classes = y.shape.at(-1) ?? 1;
      const gradient = new Float32Array(outputs.length);
      for (let from = 0; from < outputs.length; from += classes) {
        let inner = 0;
        for (let at = from; at < from + classes; at++) {
          inner += (given[at] as number) * (outputs[at] as number);
        }
        for (let at = from; at < from + classes; at++) {
          gradient[at] = (outputs[at] as number) * ((given[at] as number) - inner);
        }
      }
      return native.tf.tensor(gradient, y.shape, 'float32');
    },
  };
}

function maxPoolGradient(native: NativeBackend, dy: tfjs.Tensor, saved: readonly tfjs.Tensor[], attributes: tfjs.NamedAttrMap) {
  const [x] = saved;
  // In a compiled graph, TensorFlow itself selects oneDNN's kernels.
  if (native.usesGpu || native.isObserved || !isFloat(x) || x.rank !== 4) {
    return null;
  }
  const { filterSize, strides, pad, dimRoundingMode } = attributes as unknown as PoolAttributes;
  const info = native.tf.backend_util.computePool2DInfo(
    x.shape as [number, number, number, number],
    filterSize,
    strides,
    1,
    pad,
    dimRoundingMode,
  );
  const { type } = info.padInfo;
  if (type !== 'VALID' && type !== 'SAME') {
    return null;
  }
  const window = [native.integers('strides', [1, info.strideHeight, info.strideWidth, 1]), native.text('padding', type)];
  const byDilation = () => {
    const filter = native.tf.zeros([info.filterHeight, info.filterWidth, info.inChannels]);
    return native.run('Dilation2DBackpropInput', [x, filter, dy], [...window, native.integers('rates', [1, 1, 1, 1])]);
  };
  const byOneDnn = () => {
    const size = native.integers('ksize', [1, info.filterHeight, info.filterWidth, 1]);
    // These attributes select oneDNN's kernels. TensorFlow sets them in its own graphs.
    const kernel = [native.text('data_format', 'NHWC'), native.flag('workspace_enabled', true), native.text('_kernel', 'MklNameChangeOp')];
    const all = [native.type('T'), size, ...window, ...kernel];
    const [y, workspace] = native.runRaw('_MklNativeMaxPool', [x], all, 2) as [tfjs.Tensor, tfjs.Tensor];
    return native.runRaw('_MklNativeMaxPoolGrad', [x, y, dy, workspace], all, 1)[0] as tfjs.Tensor;
  };
  return { x: () => native.runWithFallback('max pooling', byOneDnn, byDilation) };
}

interface PoolAttributes {
  readonly filterSize: [number, number] | number;
  readonly strides: [number, number] | number;
  readonly pad: 'valid' | 'same' | number;
  readonly dimRoundingMode?: 'floor' | 'round' | 'ceil';
}

/**
 * Computes the gradients of batch normalisation.
 *
 * For each channel, y = (x - mean) r scale + offset, with r = 1 / sqrt(variance + epsilon). One kernel computes three gradients: dy scale r
 * for x, sum(dy (x - mean) r) for scale, and sum(dy) for offset. The gradients for mean and variance follow from these sums:
 *
 *   mean       -r scale sum(dy)
 *   variance   -1/2 r^2 scale sum(dy (x - mean) r)
 */
function batchNormGradient(native: NativeBackend, dy: tfjs.Tensor, saved: readonly tfjs.Tensor[], attributes: tfjs.NamedAttrMap) {
  const { tf } = native;
  const [x, mean, variance, scale] = saved;
  if (!isFloat(x) || !isFloat(mean) || !isFloat(variance) || !isFloat(scale) || x.rank !== 4) {
    return null;
  }
  if ([mean, variance, scale].some(({ rank }) => rank !== 1)) {
    return null;
  }
  const epsilon = attributes.varianceEpsilon as number;
  const [forX, forScale, forOffset, ...rest] = native.runRaw(
    'FusedBatchNormGradV3',
    [dy, x, scale, mean, variance, tf.zeros([0])],
    [
      native.type('T'),
      native.type('U'),
      native.number('epsilon', epsilon),
      native.text('data_format', 'NHWC'),
      native.flag('is_training', false),
    ],
    5,
  ) as [tfjs.Tensor, tfjs.Tensor, tfjs.Tensor, ...tfjs.Tensor[]];
  tf.dispose(rest);
  const inverse = native.run('Rsqrt', [native.run('Add', [variance, tf.scalar(epsilon)])]);
  const factor = native.run('Mul', [inverse, scale]);
  return {
    x: () => forX,
    mean: () => native.run('Neg', [native.run('Mul', [factor, forOffset])]),
    variance: () => native.run('Mul', [native.run('Mul', [factor, forScale]), native.run('Mul', [inverse, tf.scalar(-0.5)])]),
    scale: () => forScale,
    offset: () => forOffset,
  };
}

function reshaped(native: NativeBackend, tensor: tfjs.Tensor, shape: readonly number[]): tfjs.Tensor {
  return sameShape(tensor.shape, shape) ? tensor : native.tf.reshape(tensor, [...shape]);
}

/** Returns true if `shape` is [C] or [1, ..., 1, C], where C is the last dimension of `whole`. */
function isVectorOfLast(shape: readonly number[], whole: readonly number[]): boolean {
  const channels = whole.at(-1);
  return whole.length >= 2 && shape.at(-1) === channels && shape.slice(0, -1).every((size) => size === 1) && shape.length <= whole.length;
}

interface Installed {
  readonly native: NativeBackend;
  readonly replaced: readonly tfjs.GradConfig[];
}

/** The kernels installed in each TensorFlow.js engine. All copies of TensorFlow.js in a process share one engine. */
const installed = new WeakMap<object, Installed>();

/**
 * Installs TensorFlow's kernels for gradients, and for the optimizer steps in `fit` and `step`, wherever these kernels give the same
 * results as TensorFlow.js. Does nothing if the current backend is not native.
 */
export function installNativeKernels(tf: typeof tfjs): void {
  const native = NativeBackend.of(tf);
  if (native === null || installed.has(tf.engine())) {
    return;
  }
  const replaced: tfjs.GradConfig[] = [];
  for (const kernelName of WITH_NATIVE_GRADIENT) {
    const own = tf.getGradient(kernelName);
    const better = own === undefined ? null : nativeGradientOf(native, own);
    if (better !== null) {
      replaced.push(own);
      replaceGradient(tf, better);
    }
  }
  installed.set(tf.engine(), { native, replaced });
}

/** Restores TensorFlow.js's own gradients and optimizer steps. */
export function uninstallNativeKernels(tf: typeof tfjs): void {
  for (const own of installed.get(tf.engine())?.replaced ?? []) {
    replaceGradient(tf, own);
  }
  installed.delete(tf.engine());
}

/** Returns the native backend, or null if its kernels are not installed. */
export function nativeKernelsOf(tf: typeof tfjs): NativeBackend | null {
  return installed.get(tf.engine())?.native ?? null;
}

function replaceGradient(tf: typeof tfjs, config: tfjs.GradConfig): void {
  tf.unregisterGradient(config.kernelName);
  tf.registerGradient(config);
}
