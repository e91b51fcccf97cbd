import type * as tfjs from '@tensorflow/tfjs';
import { withRandom } from '../../platform/random.ts';
import type { KernelAttribute, NativeBackend } from '../backend/native/native-backend.ts';
import { type AttrValue, attr, GraphBuilder, shapeProto } from '../export/graph-builder.ts';

/** A computation that cannot be a graph. The message completes the sentence "the step is not compiled, because". */
export class NotCompilable extends Error {}

type Numbers = Float32Array | Int32Array | Uint8Array;

/** A tensor of random numbers from 0 to 1, whose seed the computation has drawn from Math.random. */
export interface RandomTensor {
  /** Index of the draw. */
  readonly draw: number;
  readonly shape: readonly number[];
}

export interface Recording {
  readonly graph: GraphBuilder;
  /** Names of the nodes that take the inputs, followed by those that take the random tensors. */
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly randoms: readonly RandomTensor[];
  /** The constants' values, in the order of their nodes. */
  readonly constants: readonly Numbers[];
  /** The values of the outputs, as computed during the recording. */
  readonly values: readonly tfjs.Tensor[];
}

/** TensorFlow would need minutes to optimise a larger graph. */
const MOST_OPERATIONS = 20_000;
/** TensorFlow's names of its types, by number (tensorflow/core/framework/types.proto). */
const TYPE_NAMES: Readonly<Record<number, string>> = { 1: 'float32', 3: 'int32', 10: 'bool' };

/**
 * Runs a computation, and records the TensorFlow operations that the native backend runs for it. Tensors that are neither inputs nor
 * outputs of recorded operations become constants, except for random numbers. The caller must run this function within tf.tidy.
 * @param random the numbers that the computation draws from Math.random
 * @throws NotCompilable if the computation reads the values of its tensors, or uses tensors or attributes that the graph cannot contain
 */
export function record(
  native: NativeBackend,
  inputs: readonly tfjs.Tensor[],
  random: () => number,
  compute: () => readonly tfjs.Tensor[],
): Recording {
  const recorder = new Recorder(native);
  const names = inputs.map((input) => recorder.input(input));
  const draw = (): number => {
    const drawn = random();
    recorder.draws.push(drawn);
    return drawn;
  };
  const values = withRandom(draw, () => native.observe(recorder, compute));
  const outputs = values.map((value) => recorder.output(value));
  const { graph, randoms, constants } = recorder;
  return { graph, inputs: [...names, ...recorder.randomNames], outputs, randoms, constants, values };
}

/** Creates the random tensors of a recording with other draws. */
export function randomTensors(tf: typeof tfjs, randoms: readonly RandomTensor[], random: () => number): tfjs.Tensor[] {
  const draws = Array.from({ length: 1 + Math.max(-1, ...randoms.map(({ draw }) => draw)) }, random);
  return randoms.map(({ draw, shape }) => randomTensor(tf, shape, draws[draw] as number));
}

/** Creates the same numbers as TensorFlow.js's functions that draw their seed from Math.random. */
function randomTensor(tf: typeof tfjs, shape: readonly number[], seed: number): tfjs.Tensor {
  return tf.randomUniform([...shape], 0, 1, 'float32', seed);
}

class Recorder {
  readonly graph = new GraphBuilder(null);
  readonly constants: Numbers[] = [];
  readonly randoms: RandomTensor[] = [];
  readonly randomNames: string[] = [];
  /** The numbers that the computation has drawn from Math.random. */
  readonly draws: number[] = [];
  readonly #native: NativeBackend;
  /** Names of the graph's tensors. Tensors with the same data have the same `dataId`. */
  readonly #names = new Map<object, string>();
  /** The data that depends on the inputs. */
  readonly #computed = new Set<object>();

  constructor(native: NativeBackend) {
    this.#native = native;
  }

  input(tensor: tfjs.Tensor): string {
    const name = this.#placeholder(tensor);
    this.#computed.add(tensor.dataId);
    return name;
  }

  #placeholder({ dataId, dtype, shape }: tfjs.Tensor): string {
    const name = this.graph.node('input', 'Placeholder', [], { dtype: attr.type(dtype), shape: { shape: shapeProto(shape) } });
    this.#names.set(dataId, name);
    return name;
  }

  output(tensor: tfjs.Tensor): string {
    return this.graph.node('output', 'Identity', [this.#nameOf(tensor)], { T: attr.type(tensor.dtype) });
  }

  onOperation(
    operation: string,
    attributes: readonly KernelAttribute[],
    inputs: readonly tfjs.Tensor[],
    outputs: readonly tfjs.Tensor[],
  ): void {
    if (this.graph.nodes.length > MOST_OPERATIONS) {
      throw new NotCompilable(`it runs more than ${MOST_OPERATIONS} operations`);
    }
    const given = inputs.map((input) => this.#nameOf(input));
    const values = Object.fromEntries(attributes.map((each) => [each.name, this.#valueOf(operation, each)]));
    const name = this.graph.node(operation, operation, given, values);
    outputs.forEach(({ dataId }, index) => {
      this.#names.set(dataId, index === 0 ? name : `${name}:${index}`);
      this.#computed.add(dataId);
    });
  }

  onRead(dataId: object): void {
    if (this.#computed.has(dataId)) {
      throw new NotCompilable('it reads the values of tensors');
    }
  }

  #nameOf(tensor: tfjs.Tensor): string {
    const known = this.#names.get(tensor.dataId);
    if (known !== undefined) {
      return known;
    }
    const { dataId, dtype, shape } = tensor;
    if (dtype !== 'float32' && dtype !== 'int32' && dtype !== 'bool') {
      throw new NotCompilable(`it uses tensors of type ${dtype}`);
    }
    // The values must be copied now, because the computation disposes the tensor.
    const values = this.#native.valuesOf(dataId).slice();
    const draw = dtype === 'float32' ? this.#drawOf(shape, values) : -1;
    if (draw >= 0) {
      const random = this.#placeholder(tensor);
      this.randoms.push({ draw, shape: [...shape] });
      this.randomNames.push(random);
      return random;
    }
    this.constants.push(values);
    const name = this.graph.constant('constant', { dtype, shape, values });
    this.#names.set(dataId, name);
    return name;
  }

  /** Returns the index of the draw whose random numbers a tensor contains, or -1. */
  #drawOf(shape: readonly number[], values: Numbers): number {
    return this.draws.findIndex((seed) => {
      const tensor = randomTensor(this.#native.tf, shape, seed);
      const isEqual = Buffer.compare(bytesOf(this.#native.valuesOf(tensor.dataId)), bytesOf(values)) === 0;
      tensor.dispose();
      return isEqual;
    });
  }

  #valueOf(operation: string, { name, type, value }: KernelAttribute): AttrValue {
    const kind = this.#native.kindOf(type);
    if (kind === 'type' && typeof value === 'number' && TYPE_NAMES[value] !== undefined) {
      return attr.type(TYPE_NAMES[value]);
    }
    if (kind === 'shape') {
      return { shape: shapeProto(value as readonly number[]) };
    }
    if (kind === 'int') {
      return typeof value === 'number' ? attr.integer(value) : attr.integers(value as readonly number[]);
    }
    if (kind === 'float' && typeof value === 'number') {
      return attr.float(value);
    }
    if (kind === 'bool') {
      return attr.flag(value === true);
    }
    if (kind === 'string' && typeof value === 'string') {
      return attr.text(value);
    }
    throw new NotCompilable(`a graph cannot contain the attribute ${name} of the operation ${operation}`);
  }
}

/** Returns true if two recordings consist of the same operations and constants. */
export function isSame(one: Recording, other: Recording): boolean {
  return (
    JSON.stringify([one.graph.nodes, one.randoms]) === JSON.stringify([other.graph.nodes, other.randoms]) &&
    one.constants.every((values, index) => Buffer.compare(bytesOf(values), bytesOf(other.constants[index] as Numbers)) === 0)
  );
}

function bytesOf({ buffer, byteOffset, byteLength }: Numbers): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}
