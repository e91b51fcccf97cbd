import { attr, type GraphBuilder, notExportable } from './graph-builder.ts';
import { Call, type Lowering } from './kernel-call.ts';
import {
  batchNormalisation,
  channelsLast,
  convolution,
  finished,
  learnedSlope,
  normalisation,
  pooling,
  product,
  transposedConvolution,
} from './layer-kernels.ts';
import type { MergedCall, Size } from './merged-trace.ts';

/*
 * Maps TensorFlow.js's kernels to TensorFlow's operations, whose inputs and attributes are defined in tensorflow/core/ops. Some kernel
 * attributes are inputs in TensorFlow, and some kernels correspond to several operations.
 */

const unary =
  (operation: string, input = 'x'): Lowering =>
  (call) =>
    call.op(operation, [call.input(input)], { T: attr.type(call.tensor(input).dtype) });

const binary =
  (operation: string, [left, right] = ['a', 'b']): Lowering =>
  (call) =>
    call.op(operation, [call.input(left as string), call.input(right as string)], { T: attr.type(call.tensor(left as string).dtype) });

const logical =
  (operation: string): Lowering =>
  (call) =>
    call.op(operation, [call.input('a'), call.input('b')]);

const reduction =
  (operation: string, axes = 'axis'): Lowering =>
  (call) =>
    call.op(operation, [call.input('x'), call.graph.integers(call.axes(axes, 'x'))], {
      T: attr.type(call.tensor('x').dtype),
      Tidx: attr.type('int32'),
      keep_dims: attr.flag(call.flag('keepDims')),
    });

const argument =
  (operation: string): Lowering =>
  (call) =>
    call.op(operation, [call.input('x'), call.graph.integer(call.number('axis'))], {
      T: attr.type(call.tensor('x').dtype),
      Tidx: attr.type('int32'),
      output_type: attr.type('int32'),
    });

const cumulative =
  (operation: string): Lowering =>
  (call) =>
    call.op(operation, [call.input('x'), call.graph.integer(call.number('axis'))], {
      T: attr.type(call.tensor('x').dtype),
      exclusive: attr.flag(call.flag('exclusive')),
      reverse: attr.flag(call.flag('reverse')),
    });

const withSizes =
  (operation: string, sizes: string, type: string): Lowering =>
  (call) =>
    call.op(operation, [call.input('x'), call.graph.integers(call.sizes(sizes))], {
      T: attr.type(call.output.dtype),
      [type]: attr.type('int32'),
    });

const resize =
  (operation: string): Lowering =>
  (call) =>
    call.op(operation, [call.input('images'), call.graph.integers(call.sizes('size'))], {
      T: attr.type(call.tensor('images').dtype),
      align_corners: attr.flag(call.flag('alignCorners')),
      half_pixel_centers: attr.flag(call.flag('halfPixelCenters')),
    });

const softmax =
  (operation: string, axis: string): Lowering =>
  (call) => {
    const { shape } = call.tensor('logits');
    const along = call.number(axis);
    if (along !== -1 && along !== shape.length - 1) {
      return call.fail('works along an axis other than the last');
    }
    return call.op(operation, [call.input('logits')], { T: attr.type('float32') });
  };

const same = (names: readonly string[], lowering: (operation: string) => Lowering): [string, Lowering][] =>
  names.map((name) => [name, lowering(name)]);

const UNARY = [
  ...['Abs', 'Acos', 'Acosh', 'Asin', 'Asinh', 'Atan', 'Atanh', 'Ceil', 'Cos', 'Cosh', 'Elu', 'Erf', 'Exp', 'Expm1', 'Floor', 'Identity'],
  ...['IsFinite', 'IsInf', 'IsNan', 'Log', 'Log1p', 'Neg', 'OnesLike', 'Reciprocal', 'Relu', 'Relu6', 'Round', 'Rsqrt', 'Selu', 'Sigmoid'],
  ...['Sign', 'Sin', 'Sinh', 'Softplus', 'Sqrt', 'Square', 'Tan', 'Tanh', 'ZerosLike'],
];
const COMPARISONS = ['Equal', 'NotEqual', 'Greater', 'GreaterEqual', 'Less', 'LessEqual'];

const KERNELS: ReadonlyMap<string, Lowering> = new Map<string, Lowering>([
  ...same(UNARY, (name) => unary(name)),
  ...same(COMPARISONS, (name) => binary(name)),
  ...same(['Atan2', 'FloorDiv', 'Maximum', 'Minimum', 'Pow', 'RealDiv', 'SquaredDifference', 'Sub'], (name) => binary(name)),
  ...same(['LogicalAnd', 'LogicalOr'], logical),
  ...same(['Sum', 'Mean', 'Min', 'Prod', 'All', 'Any'], (name) => reduction(name)),
  ['Max', reduction('Max', 'reductionIndices')],
  ...same(['ArgMax', 'ArgMin'], argument),
  ...same(['Cumsum', 'Cumprod'], cumulative),
  ['Add', binary('AddV2')],
  ['Multiply', binary('Mul')],
  ['Mod', binary('FloorMod')],
  ['Prelu', (call) => learnedSlope(call, call.input('x'), call.input('alpha'))],
  ['LogicalNot', (call) => call.op('LogicalNot', [call.input('x')])],
  ['LeakyRelu', (call) => call.op('LeakyRelu', [call.input('x')], { T: attr.type('float32'), alpha: attr.float(call.number('alpha')) })],
  ['Softmax', softmax('Softmax', 'dim')],
  ['LogSoftmax', softmax('LogSoftmax', 'axis')],
  [
    'ClipByValue',
    (call) => {
      const { dtype } = call.tensor('x');
      const bounds = ['clipValueMin', 'clipValueMax'].map((name) => call.graph.scalar(call.number(name), dtype));
      return call.op('ClipByValue', [call.input('x'), ...bounds], { T: attr.type(dtype) });
    },
  ],
  ['AddN', (call) => call.op('AddN', call.inputs(), { N: attr.integer(call.traced.inputs.size), T: attr.type(call.output.dtype) })],
  ['BatchMatMul', product],
  ['_FusedMatMul', (call) => finished(call, product(call))],
  ['Conv2D', (call) => convolution(call, 'Conv2D', 2)],
  ['FusedConv2D', (call) => finished(call, convolution(call, 'Conv2D', 2))],
  ['DepthwiseConv2dNative', (call) => convolution(call, 'DepthwiseConv2dNative', 2)],
  ['FusedDepthwiseConv2D', (call) => finished(call, convolution(call, 'DepthwiseConv2dNative', 2))],
  ['Conv3D', (call) => convolution(call, 'Conv3D', 3)],
  ['Conv2DBackpropInput', transposedConvolution],
  ['MaxPool', pooling('MaxPool', 2)],
  ['AvgPool', pooling('AvgPool', 2)],
  ['MaxPool3D', pooling('MaxPool3D', 3)],
  ['AvgPool3D', pooling('AvgPool3D', 3)],
  ['FusedBatchNorm', (call) => (call.tensor('mean').shape.length === 1 ? batchNormalisation(call) : normalisation(call))],
  [
    'Reshape',
    (call) => {
      const shape = call.sizes('shape');
      const free = shape.filter((size) => typeof size !== 'number').length;
      const wanted = free === 1 && !shape.includes(-1) ? shape.map((size) => (typeof size === 'number' ? size : -1)) : shape;
      return call.op('Reshape', [call.input('x'), call.graph.integers(wanted)], {
        T: attr.type(call.output.dtype),
        Tshape: attr.type('int32'),
      });
    },
  ],
  [
    'ExpandDims',
    (call) =>
      call.op('ExpandDims', [call.input('input'), call.graph.integer(call.number('dim'))], {
        T: attr.type(call.output.dtype),
        Tdim: attr.type('int32'),
      }),
  ],
  ['Transpose', withSizes('Transpose', 'perm', 'Tperm')],
  ['Tile', withSizes('Tile', 'reps', 'Tmultiples')],
  ['BroadcastTo', withSizes('BroadcastTo', 'shape', 'Tidx')],
  ['Reverse', withSizes('ReverseV2', 'dims', 'Tidx')],
  [
    'Cast',
    (call) =>
      call.op('Cast', [call.input('x')], { SrcT: attr.type(call.tensor('x').dtype), DstT: attr.type(call.attribute('dtype') as string) }),
  ],
  [
    'Concat',
    (call) =>
      call.op('ConcatV2', [...call.inputs(), call.graph.integer(call.number('axis'))], {
        N: attr.integer(call.traced.inputs.size),
        T: attr.type(call.output.dtype),
        Tidx: attr.type('int32'),
      }),
  ],
  [
    'Pack',
    (call) =>
      call.op('Pack', call.inputs(), {
        N: attr.integer(call.traced.inputs.size),
        T: attr.type(call.output.dtype),
        axis: attr.integer(call.number('axis')),
      }),
  ],
  [
    'Unpack',
    (call) => {
      const { length } = call.traced.outputs;
      const axis = call.number('axis');
      const { shape, dtype } = call.tensor('value');
      if (typeof shape.at(axis) !== 'number') {
        return call.fail('splits the batch into single examples');
      }
      const name = call.op('Unpack', [call.input('value')], {
        num: attr.integer(length),
        T: attr.type(dtype),
        axis: attr.integer(axis),
      });
      return outputsOf(name, length);
    },
  ],
  [
    'SplitV',
    (call) => {
      const [axis = 0] = call.axes('axis', 'x');
      const sizes = call.traced.outputs.map(({ shape }) => shape[axis] as Size);
      const inputs = [call.input('x'), call.graph.integers(sizes), call.graph.integer(axis)];
      const name = call.op('SplitV', inputs, {
        num_split: attr.integer(sizes.length),
        T: attr.type(call.output.dtype),
        Tlen: attr.type('int32'),
      });
      return outputsOf(name, sizes.length);
    },
  ],
  [
    'Slice',
    (call) => {
      const { shape } = call.tensor('x');
      const begin = call.sizes('begin');
      // In TensorFlow, the size -1 means that the slice extends to the end of the axis, for any number of examples.
      const size = call.sizes('size').map((each, axis) => {
        const isRest = begin[axis] === 0 && JSON.stringify(each) === JSON.stringify(shape[axis]);
        return isRest && typeof each !== 'number' ? -1 : each;
      });
      return call.op('Slice', [call.input('x'), call.graph.integers(begin), call.graph.integers(size)], {
        T: attr.type(call.output.dtype),
        Index: attr.type('int32'),
      });
    },
  ],
  [
    'StridedSlice',
    (call) => {
      const inputs = ['begin', 'end', 'strides'].map((name) => call.graph.integers(call.sizes(name)));
      return call.op('StridedSlice', [call.input('x'), ...inputs], {
        T: attr.type(call.output.dtype),
        Index: attr.type('int32'),
        begin_mask: attr.integer(call.number('beginMask')),
        end_mask: attr.integer(call.number('endMask')),
        ellipsis_mask: attr.integer(call.number('ellipsisMask')),
        new_axis_mask: attr.integer(call.number('newAxisMask')),
        shrink_axis_mask: attr.integer(call.number('shrinkAxisMask')),
      });
    },
  ],
  [
    'PadV2',
    (call) => {
      const { dtype, shape } = call.tensor('x');
      const inputs = [call.input('x'), pairsOf(call, shape.length), call.graph.scalar(call.number('constantValue'), dtype)];
      return call.op('PadV2', inputs, { T: attr.type(dtype), Tpaddings: attr.type('int32') });
    },
  ],
  [
    'MirrorPad',
    (call) => {
      const { dtype, shape } = call.tensor('x');
      return call.op('MirrorPad', [call.input('x'), pairsOf(call, shape.length)], {
        T: attr.type(dtype),
        Tpaddings: attr.type('int32'),
        mode: attr.text(String(call.attribute('mode')).toUpperCase()),
      });
    },
  ],
  [
    'GatherV2',
    (call) =>
      call.op('GatherV2', [call.input('x'), call.input('indices'), call.graph.integer(call.number('axis'))], {
        Tparams: attr.type(call.tensor('x').dtype),
        Tindices: attr.type('int32'),
        Taxis: attr.type('int32'),
        batch_dims: attr.integer((call.attribute('batchDims') as number | undefined) ?? 0),
      }),
  ],
  [
    'OneHot',
    (call) => {
      const { dtype } = call.output;
      const inputs = [
        call.graph.integer(call.number('depth')),
        ...['onValue', 'offValue'].map((name) => call.graph.scalar(call.number(name), dtype)),
      ];
      return call.op('OneHot', [call.input('indices'), ...inputs], { T: attr.type(dtype), TI: attr.type('int32'), axis: attr.integer(-1) });
    },
  ],
  [
    'Select',
    (call) =>
      call.op(
        'SelectV2',
        ['condition', 't', 'e'].map((name) => call.input(name)),
        { T: attr.type(call.output.dtype) },
      ),
  ],
  [
    'Fill',
    (call) =>
      call.op('Fill', [call.graph.integers(call.sizes('shape')), call.graph.scalar(call.number('value'), call.output.dtype)], {
        T: attr.type(call.output.dtype),
      }),
  ],
  ['ResizeNearestNeighbor', resize('ResizeNearestNeighbor')],
  ['ResizeBilinear', resize('ResizeBilinear')],
  [
    'DepthToSpace',
    (call) => {
      channelsLast(call);
      return call.op('DepthToSpace', [call.input('x')], {
        T: attr.type(call.output.dtype),
        block_size: attr.integer(call.number('blockSize')),
        data_format: attr.text('NHWC'),
      });
    },
  ],
]);

function pairsOf(call: Call, rank: number): string {
  const pairs = call.attribute('paddings') as readonly (readonly number[])[];
  return call.graph.constant(`${call.traced.layer}/paddings`, { dtype: 'int32', shape: [rank, 2], values: Int32Array.from(pairs.flat()) });
}

function outputsOf(name: string, length: number): string[] {
  return Array.from({ length }, (_, index) => (index === 0 ? name : `${name}:${index}`));
}

/**
 * Converts a kernel call to TensorFlow operations, and adds the operations to the graph.
 * @param refs the names of the tensors that the graph already contains, by tensor ID.
 * @returns the names of the outputs.
 * @throws TonyError MODEL_UNSUPPORTED with the names of the layer and the kernel.
 */
export function lowerKernel(call: MergedCall, graph: GraphBuilder, refs: ReadonlyMap<number, string>): string[] {
  const lowering = KERNELS.get(call.kernel);
  if (lowering === undefined) {
    throw notExportable(call, 'is not supported');
  }
  return [lowering(new Call(call, graph, refs))].flat();
}
