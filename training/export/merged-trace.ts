import { TonyError } from '../../platform/errors.ts';
import type { KernelCall, Trace, TracedAttribute, TracedConstant, TracedTensor } from './trace.ts';

/** The number of examples times `timesBatch`. */
export interface BatchMultiple {
  readonly timesBatch: number;
}

export type Size = number | BatchMultiple;

/** An attribute whose numbers may depend on the number of examples. */
export type MergedAttribute =
  | number
  | boolean
  | string
  | null
  | undefined
  | BatchMultiple
  | readonly MergedAttribute[]
  | { readonly [name: string]: MergedAttribute };

export interface MergedTensor {
  readonly id: number;
  readonly shape: readonly Size[];
  readonly dtype: TracedTensor['dtype'];
}

export interface MergedCall {
  readonly kernel: string;
  readonly layer: string;
  readonly inputs: ReadonlyMap<string, MergedTensor>;
  readonly attributes: Readonly<Record<string, MergedAttribute>>;
  readonly outputs: readonly MergedTensor[];
}

export interface MergedConstant extends MergedTensor {
  /**
   * The constant's values. If the constant's shape depends on the number of examples, all values are equal, and this array has only one of
   * them.
   */
  readonly values: TracedConstant['values'];
}

export interface MergedTrace {
  readonly inputs: readonly MergedTensor[];
  readonly outputs: readonly MergedTensor[];
  readonly calls: readonly MergedCall[];
  readonly constants: ReadonlyMap<number, MergedConstant>;
}

/**
 * Merges two traces of one model, which were recorded with `batches[0]` and `batches[1]` examples. A number that differs between the traces
 * becomes a multiple of the number of examples. The result has the tensor IDs of the first trace.
 * @throws TonyError MODEL_UNSUPPORTED if the traces differ in any other way.
 */
export function mergeTraces(one: Trace, other: Trace, batches: readonly [number, number]): MergedTrace {
  return new TraceMerge(one, other, batches).merge();
}

/** Merges two traces. In each method, `a` is from the first trace, and `b` is the corresponding part of the second trace. */
class TraceMerge {
  readonly #one: Trace;
  readonly #other: Trace;
  readonly #batches: readonly [number, number];
  /** Maps the tensor IDs of the second trace to those of the first trace. */
  readonly #firstIds = new Map<number, number>();
  readonly #constants = new Map<number, MergedConstant>();
  #current: KernelCall | null = null;

  constructor(one: Trace, other: Trace, batches: readonly [number, number]) {
    this.#one = one;
    this.#other = other;
    this.#batches = batches;
  }

  merge(): MergedTrace {
    const [one, other] = [this.#one, this.#other];
    const inputs = one.inputs.map((input, index) => this.#produced(input, other.inputs[index] as TracedTensor));
    if (one.calls.length !== other.calls.length) {
      this.#fail('the operations depend on the number of examples');
    }
    const calls = one.calls.map((call, index) => this.#call(call, other.calls[index]));
    this.#current = null;
    const outputs = one.outputs.map((output, index) => this.#used(output, other.outputs[index] as TracedTensor));
    return { inputs, calls, constants: this.#constants, outputs };
  }

  #call(a: KernelCall, b: KernelCall | undefined): MergedCall {
    const { layer, kernel } = a;
    this.#current = a;
    if (b?.kernel !== kernel || b.inputs.size !== a.inputs.size || b.outputs.length !== a.outputs.length) {
      return this.#fail('the operations depend on the number of examples');
    }
    const input = (name: string) => b.inputs.get(name) ?? this.#fail('the names of its inputs depend on the number of examples');
    return {
      kernel,
      layer,
      inputs: new Map([...a.inputs].map(([name, tensor]) => [name, this.#used(tensor, input(name))])),
      attributes: this.#attribute(a.attributes, b.attributes) as MergedCall['attributes'],
      outputs: a.outputs.map((output, index) => this.#produced(output, b.outputs[index] as TracedTensor)),
    };
  }

  #produced(a: TracedTensor, b: TracedTensor): MergedTensor {
    this.#firstIds.set(b.id, a.id);
    return this.#tensor(a, b);
  }

  #used(a: TracedTensor, b: TracedTensor): MergedTensor {
    const [here, there] = [this.#one.constants.get(a.id), this.#other.constants.get(b.id)];
    if (here !== undefined && there !== undefined) {
      this.#firstIds.set(b.id, a.id);
      if (!this.#constants.has(a.id)) {
        const merged = this.#tensor(a, b);
        const values =
          valuesOf(here, there, isFixed(merged.shape)) ?? this.#fail('the values of a constant depend on the number of examples');
        this.#constants.set(a.id, { ...merged, values });
      }
    }
    if ((this.#firstIds.get(b.id) ?? b.id) !== a.id) {
      this.#fail('the choice of its inputs depends on the number of examples');
    }
    return this.#tensor(a, b);
  }

  #tensor(a: TracedTensor, b: TracedTensor): MergedTensor {
    return { id: a.id, shape: this.#shape(a.shape, b.shape), dtype: a.dtype };
  }

  #shape(a: readonly number[], b: readonly number[]): Size[] {
    if (a.length !== b.length) {
      return this.#fail('the number of dimensions of a tensor depends on the number of examples');
    }
    return a.map((each, index) => this.#size(each, b[index] as number));
  }

  #size(a: number, b: number): Size {
    if (Object.is(a, b)) {
      return a;
    }
    const [few, many] = this.#batches;
    const times = a / few;
    if (!Number.isInteger(times) || times * many !== b) {
      return this.#fail(`a size is ${a} for ${few} examples and ${b} for ${many} examples, which is not proportional`);
    }
    return { timesBatch: times };
  }

  #attribute(a: TracedAttribute, b: TracedAttribute): MergedAttribute {
    if (typeof a === 'number' && typeof b === 'number') {
      return this.#size(a, b);
    }
    if (Array.isArray(a) && Array.isArray(b) && a.length === b.length) {
      return a.map((each, index) => this.#attribute(each, b[index]));
    }
    if (isRecord(a) && isRecord(b)) {
      return Object.fromEntries(Object.keys(a).map((name) => [name, this.#attribute(a[name], b[name])]));
    }
    return a === b ? (a as MergedAttribute) : this.#fail('an attribute depends on the number of examples');
  }

  #fail(what: string): never {
    const place = this.#current === null ? 'the model' : `layer ${this.#current.layer}, kernel ${this.#current.kernel}`;
    throw new TonyError('MODEL_UNSUPPORTED', `${place}: ${what}`);
  }
}

export function isFixed(shape: readonly Size[]): shape is readonly number[] {
  return shape.every((each) => typeof each === 'number');
}

function valuesOf(one: TracedConstant, other: TracedConstant, fixed: boolean): TracedConstant['values'] | null {
  const [a, b] = [one.values, other.values];
  if (fixed) {
    return a.length === b.length && a.every((value, index) => Object.is(value, b[index])) ? a : null;
  }
  const first = a[0];
  return first !== undefined && [a, b].every((values) => values.every((value) => Object.is(value, first))) ? a.slice(0, 1) : null;
}

function isRecord(value: TracedAttribute): value is { readonly [name: string]: TracedAttribute } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
