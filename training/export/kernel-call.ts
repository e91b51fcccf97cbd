import { type AttrValue, type GraphBuilder, notExportable } from './graph-builder.ts';
import type { MergedAttribute, MergedCall, MergedTensor, Size } from './merged-trace.ts';

/** A kernel call that is being converted to TensorFlow operations. Errors name the layer and the kernel. */
export class Call {
  readonly traced: MergedCall;
  readonly graph: GraphBuilder;
  readonly #refs: ReadonlyMap<number, string>;

  constructor(traced: MergedCall, graph: GraphBuilder, refs: ReadonlyMap<number, string>) {
    this.traced = traced;
    this.graph = graph;
    this.#refs = refs;
  }

  tensor(name: string): MergedTensor {
    return this.traced.inputs.get(name) ?? this.fail(`has no input ${name}`);
  }

  has(name: string): boolean {
    return this.traced.inputs.has(name);
  }

  input(name: string): string {
    return this.#refs.get(this.tensor(name).id) ?? this.fail(`has the input ${name}, which no recorded call produces`);
  }

  /** Returns the names of all inputs, for kernels whose input is a list of tensors. */
  inputs(): string[] {
    return [...this.traced.inputs.keys()].map((name) => this.input(name));
  }

  get output(): MergedTensor {
    return this.traced.outputs[0] as MergedTensor;
  }

  op(operation: string, inputs: readonly string[], attributes: Readonly<Record<string, AttrValue>> = {}): string {
    return this.graph.node(`${this.traced.layer}/${operation}`, operation, inputs, attributes);
  }

  attribute(name: string): MergedAttribute {
    return this.traced.attributes[name];
  }

  number(name: string): number {
    const value = this.attribute(name);
    return typeof value === 'number' ? value : this.fail(`has no attribute ${name} with a fixed value`);
  }

  flag(name: string): boolean {
    return this.attribute(name) === true;
  }

  /** Returns an attribute as a list of numbers. If the attribute is a single number, the list contains it `length` times. */
  numbers(name: string, length = 1): number[] {
    const sizes = this.sizes(name, length);
    return sizes.map((value) =>
      typeof value === 'number' ? value : this.fail(`has an attribute ${name} that depends on the number of examples`),
    );
  }

  sizes(name: string, length = 1): Size[] {
    const value = this.attribute(name);
    return Array.isArray(value) ? (value as Size[]) : Array.from({ length }, () => value as Size);
  }

  /**
   * Returns the axes in the attribute called `name`, with negative axes converted to indices from 0. If the attribute is missing, returns
   * all axes of `input`.
   */
  axes(name: string, input: string): number[] {
    const { length } = this.tensor(input).shape;
    const value = this.attribute(name);
    const axes = isMissing(value) ? Array.from({ length }, (_, axis) => axis) : this.numbers(name);
    return axes.map((axis) => (axis < 0 ? axis + length : axis));
  }

  fail(why: string): never {
    throw notExportable(this.traced, why);
  }
}

export function isMissing(value: MergedAttribute): value is null | undefined {
  return value === null || value === undefined;
}

/** Adds a call's operations to the graph and returns the names of the call's outputs. */
export type Lowering = (call: Call) => string | string[];
