import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../platform/errors.ts';
import { type BatchMultiple, isFixed, type MergedCall, type MergedConstant, type Size } from './merged-trace.ts';

/*
 * TensorFlow's GraphDef as JSON (tensorflow/core/framework/graph.proto, node_def.proto, attr_value.proto). In protobuf's JSON format,
 * 64-bit numbers are strings and bytes are base64.
 */

export type AttrValue =
  | { readonly type: string }
  | { readonly i: string }
  | { readonly f: number }
  | { readonly b: boolean }
  | { readonly s: string }
  | { readonly list: { readonly i: readonly string[] } }
  | { readonly shape: ShapeProto }
  | { readonly tensor: { readonly dtype: string; readonly tensorShape: ShapeProto } };

export interface ShapeProto {
  readonly dim: readonly { readonly size: string }[];
}

export interface NodeDef {
  readonly name: string;
  readonly op: string;
  readonly input: readonly string[];
  readonly attr: Readonly<Record<string, AttrValue>>;
}

export interface ConstantNode {
  readonly name: string;
  readonly dtype: 'float32' | 'int32' | 'bool';
  readonly shape: readonly number[];
  /** The constant's values, or the variable that contains them if the constant is one of the model's weights. */
  readonly values: Float32Array | Int32Array | Uint8Array | tfjs.Variable;
}

const TYPES: Readonly<Record<string, string>> = { float32: 'DT_FLOAT', int32: 'DT_INT32', bool: 'DT_BOOL' };

export const attr = {
  type: (dtype: string): AttrValue => ({ type: typeName(dtype) }),
  integer: (value: number): AttrValue => ({ i: String(value) }),
  float: (value: number): AttrValue => ({ f: value }),
  flag: (value: boolean): AttrValue => ({ b: value }),
  text: (value: string): AttrValue => ({ s: Buffer.from(value).toString('base64') }),
  integers: (values: readonly number[]): AttrValue => ({ list: { i: values.map(String) } }),
} as const;

export function typeName(dtype: string): string {
  const name = TYPES[dtype];
  if (name === undefined) {
    throw new TonyError('MODEL_UNSUPPORTED', `tensors of type ${dtype} cannot be exported`);
  }
  return name;
}

export function shapeProto(shape: readonly Size[]): ShapeProto {
  return { dim: shape.map((each) => ({ size: String(typeof each === 'number' ? each : -1) })) };
}

/**
 * Builds a graph node by node. A node's name is also the name of its first output. The other outputs are named `name:1`, `name:2` and so
 * on.
 */
export class GraphBuilder {
  readonly nodes: NodeDef[] = [];
  readonly constants: ConstantNode[] = [];
  readonly #names = new Set<string>();
  readonly #small = new Map<string, string>();
  /** Placeholder whose first dimension is the number of examples. */
  readonly #counted: string | null;
  #batch: string | null = null;

  constructor(counted: string | null) {
    this.#counted = counted;
  }

  node(wanted: string, op: string, input: readonly string[], attributes: Readonly<Record<string, AttrValue>> = {}): string {
    const name = this.#free(wanted);
    this.nodes.push({ name, op, input, attr: attributes });
    return name;
  }

  constant(wanted: string, constant: Omit<ConstantNode, 'name'>): string {
    const { dtype, shape } = constant;
    const type = typeName(dtype);
    const name = this.node(wanted, 'Const', [], { dtype: { type }, value: { tensor: { dtype: type, tensorShape: shapeProto(shape) } } });
    this.constants.push({ ...constant, name });
    return name;
  }

  integers(values: readonly Size[]): string {
    if (isFixed(values)) {
      return this.#shared('int32', [values.length], Int32Array.from(values));
    }
    const parts = values.map((value) => (typeof value === 'number' ? this.integer(value) : this.#multiple(value)));
    return this.node('shape/Pack', 'Pack', parts, {
      N: attr.integer(parts.length),
      T: attr.type('int32'),
      axis: attr.integer(0),
    });
  }

  integer(value: number): string {
    return this.#shared('int32', [], Int32Array.of(value));
  }

  scalar(value: number, dtype: string): string {
    const array = dtype === 'float32' ? Float32Array.of(value) : dtype === 'int32' ? Int32Array.of(value) : Uint8Array.of(value);
    return this.#shared(dtype as ConstantNode['dtype'], [], array);
  }

  /** Adds a constant that the model itself creates during a prediction. Returns the constant's name. */
  own(wanted: string, { dtype, shape, values }: MergedConstant): string {
    if (isFixed(shape)) {
      return this.constant(wanted, { dtype: dtype as ConstantNode['dtype'], shape, values });
    }
    return this.node(wanted, 'Fill', [this.integers(shape), this.scalar(values[0] as number, dtype)], { T: attr.type(dtype) });
  }

  #shared(dtype: ConstantNode['dtype'], shape: readonly number[], values: Exclude<ConstantNode['values'], tfjs.Variable>): string {
    const key = `${dtype} ${shape} ${values}`;
    const name = this.#small.get(key) ?? this.constant('constant', { dtype, shape, values });
    this.#small.set(key, name);
    return name;
  }

  /** Adds a multiple of the number of examples, which the graph reads from the shape of its input at run time. */
  #multiple({ timesBatch }: BatchMultiple): string {
    this.#batch ??= this.#countExamples();
    return timesBatch === 1
      ? this.#batch
      : this.node('shape/Mul', 'Mul', [this.#batch, this.integer(timesBatch)], { T: attr.type('int32') });
  }

  #countExamples(): string {
    if (this.#counted === null) {
      throw new TonyError('INTERNAL', 'the graph depends on the number of examples, but no input has a variable number of examples');
    }
    const shape = this.node('shape/Shape', 'Shape', [this.#counted], { T: attr.type('float32'), out_type: attr.type('int32') });
    return this.node('shape/examples', 'StridedSlice', [shape, this.integers([0]), this.integers([1]), this.integers([1])], {
      T: attr.type('int32'),
      Index: attr.type('int32'),
      begin_mask: attr.integer(0),
      end_mask: attr.integer(0),
      ellipsis_mask: attr.integer(0),
      new_axis_mask: attr.integer(0),
      shrink_axis_mask: attr.integer(1),
    });
  }

  #free(wanted: string): string {
    const plain = wanted.replace(/[^A-Za-z0-9_./-]/g, '_').replace(/^[^A-Za-z0-9.]/, 'n$&');
    let name = plain;
    for (let more = 1; this.#names.has(name); more++) {
      name = `${plain}_${more}`;
    }
    this.#names.add(name);
    return name;
  }
}

/** Returns the error for a kernel that TensorFlow's operations cannot represent. */
export function notExportable({ layer, kernel }: Pick<MergedCall, 'layer' | 'kernel'>, why: string): TonyError {
  return new TonyError('MODEL_UNSUPPORTED', `layer ${layer} cannot be part of a GraphModel: kernel ${kernel} ${why}`);
}
