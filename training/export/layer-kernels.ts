import { type AttrValue, attr } from './graph-builder.ts';
import { type Call, isMissing, type Lowering } from './kernel-call.ts';

/* Converts the kernels that convolution, pooling, dense and normalisation layers use to TensorFlow operations. */

/** Adds a 1 for the batch axis and for the channel axis to a list such as strides. The channel axis is the last one. */
function spatial(values: readonly number[]): AttrValue {
  return attr.integers([1, ...values, 1]);
}

function padding(call: Call, dimensions: number): Record<string, AttrValue> {
  const pad = call.attribute('pad');
  if (pad === 'same' || pad === 'valid') {
    return { padding: attr.text(pad.toUpperCase()) };
  }
  const pairs = typeof pad === 'number' ? [0, ...Array.from({ length: dimensions }, () => pad), 0].map((each) => [each, each]) : pad;
  if (!Array.isArray(pairs)) {
    return call.fail('has an unknown padding');
  }
  if (!isMissing(call.attribute('dimRoundingMode')) && call.attribute('dimRoundingMode') !== 'floor') {
    return call.fail('rounds output dimensions in a way that TensorFlow does not support');
  }
  return { padding: attr.text('EXPLICIT'), explicit_paddings: attr.integers(pairs.flat() as number[]) };
}

export function channelsLast(call: Call): void {
  const format = call.attribute('dataFormat');
  if (!isMissing(format) && format !== 'NHWC' && format !== 'NDHWC') {
    call.fail(`expects its channels first (${format}), which is not supported`);
  }
}

export function convolution(call: Call, operation: string, dimensions: number): string {
  channelsLast(call);
  return call.op(operation, [call.input('x'), call.input('filter')], {
    T: attr.type('float32'),
    strides: spatial(call.numbers('strides', dimensions)),
    dilations: spatial(isMissing(call.attribute('dilations')) ? Array(dimensions).fill(1) : call.numbers('dilations', dimensions)),
    data_format: attr.text(dimensions === 3 ? 'NDHWC' : 'NHWC'),
    ...padding(call, dimensions),
  });
}

export function transposedConvolution(call: Call): string {
  channelsLast(call);
  return call.op('Conv2DBackpropInput', [call.graph.integers(call.sizes('inputShape')), call.input('filter'), call.input('dy')], {
    T: attr.type('float32'),
    strides: spatial(call.numbers('strides', 2)),
    dilations: spatial([1, 1]),
    data_format: attr.text('NHWC'),
    ...padding(call, 2),
  });
}

export const pooling =
  (operation: string, dimensions: number): Lowering =>
  (call) => {
    channelsLast(call);
    return call.op(operation, [call.input('x')], {
      T: attr.type('float32'),
      ksize: spatial(call.numbers('filterSize', dimensions)),
      strides: spatial(call.numbers('strides', dimensions)),
      data_format: attr.text(dimensions === 3 ? 'NDHWC' : 'NHWC'),
      ...padding(call, dimensions),
    });
  };

export function product(call: Call): string {
  const [a, b] = [call.input('a'), call.input('b')];
  const [transposeA, transposeB] = [attr.flag(call.flag('transposeA')), attr.flag(call.flag('transposeB'))];
  return call.tensor('a').shape.length === 2 && call.tensor('b').shape.length === 2
    ? call.op('MatMul', [a, b], { T: attr.type('float32'), transpose_a: transposeA, transpose_b: transposeB })
    : call.op('BatchMatMulV2', [a, b], { T: attr.type('float32'), adj_x: transposeA, adj_y: transposeB });
}

export function batchNormalisation(call: Call): string {
  const [size] = call.tensor('mean').shape;
  const missing = (name: string, value: number) => {
    const values = new Float32Array(typeof size === 'number' ? size : call.fail('has separate statistics for each example')).fill(value);
    return call.graph.constant(`${call.traced.layer}/${name}`, { dtype: 'float32', shape: [values.length], values });
  };
  const scale = call.has('scale') ? call.input('scale') : missing('scale', 1);
  const offset = call.has('offset') ? call.input('offset') : missing('offset', 0);
  return call.op('FusedBatchNormV3', [call.input('x'), scale, offset, call.input('mean'), call.input('variance')], {
    T: attr.type('float32'),
    U: attr.type('float32'),
    epsilon: attr.float(call.number('varianceEpsilon')),
    data_format: attr.text('NHWC'),
    is_training: attr.flag(false),
  });
}

/** Converts normalisation along axes other than the channel axis, for which TensorFlow has no single operation. */
export function normalisation(call: Call): string {
  const op = (operation: string, ...inputs: string[]) => call.op(operation, inputs, { T: attr.type('float32') });
  const epsilon = call.graph.scalar(call.number('varianceEpsilon'), 'float32');
  const centred = op('Sub', call.input('x'), call.input('mean'));
  const normalised = op('Mul', centred, op('Rsqrt', op('AddV2', call.input('variance'), epsilon)));
  const scaled = call.has('scale') ? op('Mul', normalised, call.input('scale')) : normalised;
  return call.has('offset') ? op('AddV2', scaled, call.input('offset')) : scaled;
}

/** Computes max(x, 0) + slope * min(x, 0), because TensorFlow has no operation for a slope that is a tensor. */
export function learnedSlope(call: Call, x: string, slope: string): string {
  const op = (operation: string, ...inputs: string[]) => call.op(operation, inputs, { T: attr.type('float32') });
  const negative = op('Minimum', x, call.graph.scalar(0, 'float32'));
  return op('AddV2', op('Relu', x), op('Mul', slope, negative));
}

/** Adds a fused kernel's bias and activation to the result of the kernel's main operation. */
export function finished(call: Call, result: string): string {
  const float = { T: attr.type('float32') };
  const rank = call.has('bias') ? call.tensor('bias').shape.length : 0;
  const biased = call.has('bias') ? call.op(rank === 1 ? 'BiasAdd' : 'AddV2', [result, call.input('bias')], float) : result;
  const activation = call.attribute('activation') ?? 'linear';
  switch (activation) {
    case 'linear':
      return biased;
    case 'relu':
      return call.op('Relu', [biased], float);
    case 'relu6':
      return call.op('Relu6', [biased], float);
    case 'elu':
      return call.op('Elu', [biased], float);
    case 'sigmoid':
      return call.op('Sigmoid', [biased], float);
    case 'leakyrelu':
      return call.op('LeakyRelu', [biased], {
        ...float,
        alpha: attr.float((call.attribute('leakyreluAlpha') as number | undefined) ?? 0.2),
      });
    case 'prelu':
      return learnedSlope(call, biased, call.input('preluActivationWeights'));
    default:
      return call.fail(`has the unknown activation ${String(activation)}`);
  }
}
