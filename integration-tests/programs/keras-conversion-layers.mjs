/** Random models of one layer each, with random options, for keras-conversion.mjs. */

/** @import * as Tfjs from '@tensorflow/tfjs' */
/** @typedef {() => number} Random */
/** @typedef {(random: Random) => Tfjs.LayersModel} Maker */

/** @type {any[]} */
const ACTIVATIONS = 'elu gelu hardSigmoid linear relu relu6 selu sigmoid softmax softplus softsign swish tanh mish'.split(' ');

/** @template T @param {Random} random @param {readonly T[]} proven @param {readonly T[]} unproven @returns {T} */
function one(random, proven, unproven = []) {
  const values = unproven.length > 0 && random() < 0.06 ? unproven : proven;
  return /** @type {T} */ (values[Math.floor(random() * values.length)]);
}

/** @param {Random} random @param {number} least @param {number} most */
const whole = (random, least, most) => least + Math.floor(random() * (most - least + 1));
/** @param {Random} random */
const flag = (random) => random() < 0.5;
/** @param {Random} random @param {number} count @param {number} least @param {number} most */
const sizes = (random, count, least, most) => Array.from({ length: count }, () => whole(random, least, most));
/** @param {Random} random @param {number} rank */
const shapeOf = (random, rank) => [...sizes(random, rank, 4, 7), whole(random, 2, 3)];

/** @param {Random} random @param {string[]} names @returns {Record<string, any>} */
function weights(random, ...names) {
  /** @type {Record<string, any>} */
  const options = {};
  for (const name of names) {
    if (random() < 0.2) {
      options[`${name}Initializer`] = one(random, ['glorotNormal', 'heUniform', 'leCunNormal', 'randomNormal', 'ones']);
    }
    if (random() < 0.2) {
      options[`${name}Regularizer`] = 'l1l2';
    }
    if (random() < 0.2) {
      options[`${name}Constraint`] = one(random, ['maxNorm', 'nonNeg', 'unitNorm']);
    }
  }
  return options;
}

/** @param {Random} random @param {string[]} names @returns {Record<string, any>} */
function biased(random, ...names) {
  return { activation: one(random, ACTIVATIONS, ['gelu_new']), useBias: flag(random), ...weights(random, 'bias', ...names) };
}

/** @param {Random} random @param {number} rank @param {string[]} names @returns {Record<string, any>} */
function convolution(random, rank, ...names) {
  const isDilated = flag(random);
  return {
    filters: whole(random, 1, 3),
    kernelSize: sizes(random, rank, 1, 3),
    strides: isDilated ? 1 : sizes(random, rank, 1, 2),
    dilationRate: isDilated ? whole(random, 1, 2) : 1,
    padding: one(random, ['valid', 'same']),
    ...biased(random, ...names),
  };
}

/** @param {Random} random @param {string[]} names @returns {Record<string, any>} */
function depthwise(random, ...names) {
  const options = convolution(random, 2, ...names);
  const size = whole(random, 1, 2);
  return { ...options, strides: options.dilationRate === 1 ? [size, size] : 1, depthMultiplier: whole(random, 1, 2) };
}

/** @param {Random} random @param {number} rank @returns {Record<string, any>} */
function pool(random, rank) {
  return {
    poolSize: sizes(random, rank, 1, 3),
    strides: one(random, [null, sizes(random, rank, 1, 2)]),
    padding: one(random, ['valid', 'same']),
  };
}

/** @param {Random} random @returns {Record<string, any>} */
function recurrent(random) {
  return {
    units: whole(random, 1, 4),
    returnSequences: flag(random),
    goBackwards: flag(random),
    dropout: one(random, [0, 0.3]),
    ...biased(random, 'kernel', 'recurrent'),
  };
}

/** @param {Random} random @returns {Record<string, any>} */
function gated(random) {
  return { ...recurrent(random), recurrentActivation: one(random, ['sigmoid', 'hardSigmoid', 'tanh']) };
}

/** @param {typeof Tfjs} tf @returns {Record<string, Maker>} */
export function makers(tf) {
  const L = tf.layers;
  /** @param {number | readonly number[]} rank @param {(random: Random, shape: number[]) => any} make @returns {Maker} */
  const single = (rank, make) => (random) => {
    const shape = shapeOf(random, typeof rank === 'number' ? rank : one(random, rank));
    const layer = make(random, shape);
    if (random() < 0.3) {
      return tf.sequential({ layers: [L.inputLayer({ inputShape: shape }), layer] });
    }
    const input = tf.input({ shape });
    const outputs = [layer.apply(input)].flat();
    const [first] = outputs;
    if (
      outputs.length === 1 &&
      flag(random) &&
      first.shape.every((/** @type {number | null} */ size, /** @type {number} */ at) => at === 0 || size !== null)
    ) {
      const flat = first.shape.length > 2 ? L.flatten().apply(first) : first;
      return tf.model({ inputs: input, outputs: /** @type {any} */ (L.dense({ units: 2, activation: 'tanh' }).apply(flat)) });
    }
    return tf.model({ inputs: input, outputs });
  };
  /** @param {(random: Random, rank: number) => any} make @returns {Maker} */
  const merge = (make) => (random) => {
    const shape = shapeOf(random, whole(random, 0, 2));
    const inputs = Array.from({ length: whole(random, 2, 3) }, () => tf.input({ shape }));
    return tf.model({ inputs, outputs: make(random, shape.length + 1).apply(inputs) });
  };
  return {
    Activation: single([0, 1, 2], (random) => L.activation({ activation: one(random, ACTIVATIONS, ['gelu_new']) })),
    Add: merge(() => L.add()),
    AlphaDropout: single(1, () => L.alphaDropout({ rate: 0.3 })),
    Average: merge(() => L.average()),
    AveragePooling1D: single(1, (random) =>
      L.averagePooling1d({ ...pool(random, 1), poolSize: whole(random, 1, 3), strides: whole(random, 1, 2) }),
    ),
    AveragePooling2D: single(2, (random) => L.averagePooling2d(/** @type {any} */ (pool(random, 2)))),
    AveragePooling3D: single(3, (random) => L.averagePooling3d(/** @type {any} */ (pool(random, 3)))),
    BatchNormalization: single([0, 1, 2], (random, shape) =>
      L.batchNormalization({
        axis: one(random, [-1, shape.length]),
        epsilon: one(random, [0.001, 0.1]),
        center: flag(random),
        scale: flag(random),
        ...weights(random, 'beta', 'gamma'),
      }),
    ),
    Bidirectional: single(1, (random) => {
      const options = { ...gated(random), goBackwards: false };
      const layer = one(random, [L.lstm, L.gru, L.simpleRNN])(/** @type {any} */ (options));
      return L.bidirectional({
        layer: /** @type {any} */ (layer),
        mergeMode: /** @type {any} */ (one(random, ['concat', 'sum', 'mul', 'ave'], [null])),
      });
    }),
    CenterCrop: single(2, () => L.centerCrop({ height: 3, width: 3 })),
    Concatenate: merge((random, rank) =>
      L.concatenate({ axis: one(random, [-1, ...Array.from({ length: rank - 1 }, (_, at) => at + 1)], [-2]) }),
    ),
    Conv1D: single(1, (random) =>
      L.conv1d(/** @type {any} */ ({ ...convolution(random, 1, 'kernel'), kernelSize: whole(random, 1, 3), strides: 1 })),
    ),
    Conv2D: single(2, (random) => L.conv2d(/** @type {any} */ (convolution(random, 2, 'kernel')))),
    Conv2DTranspose: single(2, (random) =>
      L.conv2dTranspose(/** @type {any} */ ({ ...convolution(random, 2, 'kernel'), dilationRate: 1 })),
    ),
    Conv3D: single(3, (random) => L.conv3d(/** @type {any} */ (convolution(random, 3, 'kernel')))),
    Conv3DTranspose: single(3, (random) =>
      L.conv3dTranspose(/** @type {any} */ ({ ...convolution(random, 3, 'kernel'), dilationRate: 1 })),
    ),
    ConvLSTM2D: single(3, () => L.convLstm2d({ filters: 2, kernelSize: 2 })),
    Cropping2D: single(2, (random) =>
      L.cropping2D({
        cropping: one(random, [
          /** @type {any} */ (1),
          [0, 1],
          [
            [1, 0],
            [0, 2],
          ],
        ]),
      }),
    ),
    Dense: single([0, 1, 2], (random) => L.dense(/** @type {any} */ ({ units: whole(random, 1, 4), ...biased(random, 'kernel') }))),
    DepthwiseConv2D: single(2, (random) => L.depthwiseConv2d(/** @type {any} */ (depthwise(random, 'depthwise')))),
    Dot: (random) => {
      const size = whole(random, 2, 4);
      const shapes = [[size], [3, size]];
      const ends = [one(random, shapes), one(random, shapes)];
      const inputs = ends.map((shape) => tf.input({ shape }));
      const axes = /** @type {any} */ (one(random, [-1, ends.map((shape) => shape.length)], [[-1, -1]]));
      return tf.model({ inputs, outputs: /** @type {any} */ (L.dot({ axes, normalize: flag(random) }).apply(inputs)) });
    },
    Dropout: single(1, () => L.dropout({ rate: 0.4 })),
    ELU: single(1, () => L.elu()),
    Embedding: (random) =>
      tf.sequential({
        layers: [
          L.embedding({ inputDim: 5, outputDim: 3, inputLength: 4, ...weights(random, 'embeddings') }),
          one(random, [L.flatten(), L.lstm({ units: 2 })]),
        ],
      }),
    Flatten: single([0, 1, 2], () => L.flatten()),
    GRU: single(1, (random) => L.gru(/** @type {any} */ (gated(random)))),
    GaussianDropout: single(1, () => L.gaussianDropout({ rate: 0.3 })),
    GaussianNoise: single(1, () => L.gaussianNoise({ stddev: 0.3 })),
    GlobalAveragePooling1D: single(1, () => L.globalAveragePooling1d({})),
    GlobalAveragePooling2D: single(2, () => L.globalAveragePooling2d({})),
    GlobalMaxPooling1D: single(1, () => L.globalMaxPooling1d({})),
    GlobalMaxPooling2D: single(2, () => L.globalMaxPooling2d({})),
    LSTM: single(1, (random) =>
      L.lstm(/** @type {any} */ ({ ...gated(random), unitForgetBias: flag(random), returnState: random() < 0.2 })),
    ),
    LayerNormalization: single([0, 1, 2], (random, shape) =>
      L.layerNormalization({
        axis: one(random, [/** @type {any} */ (-1), shape.length, [shape.length]]),
        epsilon: one(random, [0.001, 0.1]),
        center: flag(random),
        scale: flag(random),
      }),
    ),
    LeakyReLU: single(1, (random) => L.leakyReLU({ alpha: random() })),
    Masking: (random) => {
      const options = /** @type {any} */ (gated(random));
      const first = flag(random)
        ? [L.embedding({ inputDim: 5, outputDim: 3, inputLength: 5, maskZero: true })]
        : [L.inputLayer({ inputShape: [5, 1] }), L.masking({ maskValue: one(random, [0, 1]) })];
      const middle = flag(random)
        ? [one(random, [L.dense({ units: 3 }), L.dropout({ rate: 0.3 }), L.activation({ activation: 'relu' })])]
        : [];
      const last = one(random, [L.lstm, L.gru, L.simpleRNN])(options);
      return tf.sequential({ layers: /** @type {any} */ ([...first, ...middle, last]) });
    },
    MaxPooling1D: single(1, (random) =>
      L.maxPooling1d({ ...pool(random, 1), poolSize: whole(random, 1, 3), strides: whole(random, 1, 2) }),
    ),
    MaxPooling2D: single(2, (random) => L.maxPooling2d(/** @type {any} */ (pool(random, 2)))),
    MaxPooling3D: single(3, (random) => L.maxPooling3d(/** @type {any} */ (pool(random, 3)))),
    Maximum: merge(() => L.maximum()),
    Minimum: merge(() => L.minimum()),
    Multiply: merge(() => L.multiply()),
    PReLU: single(2, (random) =>
      L.prelu({ ...one(random, [{}, { sharedAxes: [1] }, { sharedAxes: [1, 2] }], [{ sharedAxes: [-1] }]), ...weights(random, 'alpha') }),
    ),
    Permute: single(2, (random) =>
      L.permute({
        dims: one(random, [
          [2, 1, 3],
          [3, 1, 2],
        ]),
      }),
    ),
    ReLU: single(1, (random) => L.reLU(one(random, [{}, { maxValue: 1 }, { maxValue: 6 }]))),
    RepeatVector: single(0, (random) => L.repeatVector({ n: whole(random, 1, 3) })),
    Rescaling: single(2, (random) => L.rescaling({ scale: one(random, [0.5, -2]), offset: one(random, [0, 0.25]) })),
    Reshape: (random) => {
      const [shape, targetShape] = one(random, [
        [
          [4, 3],
          [-1, 6],
        ],
        [[4, 3], [12]],
        [[12], [3, 2, 2]],
      ]);
      return tf.sequential({
        layers: [L.inputLayer({ inputShape: /** @type {any} */ (shape) }), L.reshape({ targetShape: /** @type {any} */ (targetShape) })],
      });
    },
    SeparableConv2D: single(2, (random) => L.separableConv2d(/** @type {any} */ (depthwise(random, 'depthwise', 'pointwise')))),
    SimpleRNN: single(1, (random) => L.simpleRNN(/** @type {any} */ (recurrent(random)))),
    Softmax: single(1, (random) => L.softmax({ axis: one(random, [-1, 1, 2]) })),
    SpatialDropout1D: single(1, () => L.spatialDropout1d({ rate: 0.3 })),
    StackedRNN: single(1, () => L.rnn({ cell: [L.lstmCell({ units: 2 }), L.gruCell({ units: 2 })] })),
    ThresholdedReLU: single(1, () => L.thresholdedReLU({ theta: 0.5 })),
    TimeDistributed: single(1, (random) =>
      L.timeDistributed({
        layer: one(random, [/** @type {any} */ (L.dense({ units: 2, activation: 'relu' })), L.activation({ activation: 'tanh' })]),
      }),
    ),
    UpSampling2D: single(2, (random) =>
      L.upSampling2d({ size: [whole(random, 1, 3), 2], interpolation: /** @type {any} */ (one(random, ['nearest'], ['bilinear'])) }),
    ),
    ZeroPadding2D: single(2, (random) =>
      L.zeroPadding2d({
        padding: one(random, [
          /** @type {any} */ (1),
          [0, 2],
          [
            [1, 0],
            [2, 1],
          ],
        ]),
      }),
    ),
  };
}
