import type * as tfjs from '@tensorflow/tfjs';

/*
 * A graph contains what a model did when it was recorded. It may replace only models that run the same operations in every step: whose
 * layers, losses and metrics are those of TensorFlow.js. Code of the program may do something else in each step, for example with a
 * counter.
 */

/** Layers of TensorFlow.js whose operations depend only on their configuration. */
const REPEATABLE: ReadonlySet<string> = new Set([
  ...[
    'Activation',
    'Add',
    'AlphaDropout',
    'Average',
    'AveragePooling1D',
    'AveragePooling2D',
    'AveragePooling3D',
    'BatchNormalization',
    'Bidirectional',
    'Concatenate',
  ],
  ...[
    'Conv1D',
    'Conv2D',
    'Conv2DTranspose',
    'Conv3D',
    'Conv3DTranspose',
    'Cropping2D',
    'Dense',
    'DepthwiseConv2D',
    'Dot',
    'Dropout',
    'ELU',
  ],
  ...['Embedding', 'Flatten', 'GRU', 'GRUCell', 'GlobalAveragePooling1D', 'GlobalAveragePooling2D', 'GlobalMaxPooling1D'],
  ...['GlobalMaxPooling2D', 'InputLayer', 'LSTM', 'LSTMCell', 'LayerNormalization', 'LeakyReLU', 'Masking', 'MaxPooling1D'],
  ...['MaxPooling2D', 'MaxPooling3D', 'Maximum', 'Minimum', 'Multiply', 'PReLU', 'Permute', 'RNN', 'ReLU', 'RepeatVector', 'Rescaling'],
  ...[
    'Reshape',
    'SeparableConv2D',
    'SimpleRNN',
    'SimpleRNNCell',
    'Softmax',
    'SpatialDropout1D',
    'StackedRNNCells',
    'ThresholdedReLU',
    'TimeDistributed',
  ],
  ...['UpSampling2D', 'ZeroPadding2D'],
]);

/** Members of layers, and of the layers and cells that they contain, that TensorFlow.js's type declarations omit. */
interface LayerInternals {
  readonly name: string;
  readonly stateful?: boolean;
  readonly layers?: readonly LayerInternals[];
  readonly layer?: LayerInternals;
  readonly forwardLayer?: LayerInternals;
  readonly backwardLayer?: LayerInternals;
  readonly cell?: LayerInternals;
  readonly cells?: readonly LayerInternals[];
  readonly _callHook?: unknown;
  getClassName(): string;
}

interface ModelInternals {
  readonly model?: ModelInternals;
  readonly loss?: unknown;
  readonly metrics?: unknown;
}

/** Returns why a model may compute something else in another step, or null if it does not. */
export function reasonNotRepeatable(tf: typeof tfjs, model: tfjs.LayersModel): string | null {
  const [layer] = layersOf(model as unknown as LayerInternals).flatMap((each) => reasonOfLayer(each) ?? []);
  if (layer !== undefined) {
    return layer;
  }
  const outer = model as unknown as ModelInternals;
  const { loss, metrics } = outer.model ?? outer;
  if (namesOf(loss).some((each) => typeof each === 'function')) {
    return 'the loss is a function of the program';
  }
  const known = new Set<unknown>(Object.values(tf.metrics));
  return namesOf(metrics).some((each) => typeof each === 'function' && !known.has(each)) ? 'a metric is a function of the program' : null;
}

function reasonOfLayer(layer: LayerInternals): string | null {
  const name = layer.getClassName();
  if (!REPEATABLE.has(name)) {
    return `layer ${layer.name} (${name}) may do something else in each step`;
  }
  if (layer.stateful === true) {
    return `layer ${layer.name} keeps its state between batches`;
  }
  if (Object.hasOwn(layer, 'call') || typeof layer._callHook === 'function') {
    return `the program has changed layer ${layer.name}`;
  }
  const regularizer = Object.entries(layer).find(([key, value]) => /[rR]egularizer$/.test(key) && isForeign(value));
  return regularizer === undefined ? null : `layer ${layer.name} has a ${regularizer[0]} of the program`;
}

function isForeign(regularizer: unknown): boolean {
  return regularizer !== null && regularizer !== undefined && (regularizer as LayerInternals).getClassName?.() !== 'L1L2';
}

function layersOf(layer: LayerInternals): LayerInternals[] {
  const own = [layer.layer, layer.forwardLayer, layer.backwardLayer, layer.cell, ...(layer.cells ?? [])];
  const inner = [...(layer.layers ?? []), ...own.filter((each) => each !== undefined)];
  // A model is the list of its layers.
  return [...(layer.layers === undefined ? [layer] : []), ...inner.flatMap(layersOf)];
}

/** Losses and metrics are a value, a list, or an object with the names of outputs. */
function namesOf(given: unknown): unknown[] {
  return given !== null && typeof given === 'object' ? Object.values(given).flat() : [given];
}
