import { TonyError } from '../../platform/errors.ts';
import type { Attribute, Trace, TracedConstant, TracedTensor } from './trace.ts';

/** A multiple of the number of examples. */
export interface Batch {
  readonly timesBatch: number;
}

export type Size = number | Batch;

/** Like `Attribute`, with numbers that depend on the number of examples. */
export type MergedAttribute =
  | number
  | boolean
  | string
  | null
  | undefined
  | Batch
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
  /** All values; or the single repeated value, if their count depends on the number of examples. */
  readonly values: TracedConstant['values'];
}

export interface MergedTrace {
  readonly inputs: readonly MergedTensor[];
  readonly outputs: readonly MergedTensor[];
  readonly calls: readonly MergedCall[];
  readonly constants: ReadonlyMap<number, MergedConstant>;
}

/**
 * Merges two traces of one model, with `batches[0]` and `batches[1]` examples: a number that differs is treated as a multiple of the number
 * of examples. Ids are those of the first trace.
 * @throws TonyError MODEL_NOT_EXPORTABLE when a difference is not such a multiple.
 */
export function mergeTraces(one: Trace, other: Trace, batches: readonly [number, number]): MergedTrace {
  const [few, many] = batches;
  const twins = new Map<number, number>();
  const constants = new Map<number, MergedConstant>();
  let layer = '';
  let kernel = '';
  const fail = (what: string): never => {
    throw new TonyError('MODEL_NOT_EXPORTABLE', `layer ${layer}, kernel ${kernel}: ${what}`);
  };

  const size = (a: number, b: number): Size => {
    if (Object.is(a, b)) {
      return a;
    }
    const times = a / few;
    return Number.isInteger(times) && times * many === b
      ? { timesBatch: times }
      : fail(`${a} becomes ${b} with another number of examples`);
  };
  const attribute = (a: Attribute, b: Attribute): MergedAttribute => {
    if (typeof a === 'number' && typeof b === 'number') {
      return size(a, b);
    }
    if (Array.isArray(a) && Array.isArray(b) && a.length === b.length) {
      return a.map((each, index) => attribute(each, b[index]));
    }
    if (isRecord(a) && isRecord(b)) {
      return Object.fromEntries(Object.keys(a).map((name) => [name, attribute(a[name], b[name])]));
    }
    return a === b ? (a as MergedAttribute) : fail('it is told other things with another number of examples');
  };
  const shape = (a: readonly number[], b: readonly number[]): Size[] =>
    a.length === b.length ? a.map((each, index) => size(each, b[index] as number)) : fail('ranks depend on the number of examples');
  const tensor = (a: TracedTensor, b: TracedTensor): MergedTensor => ({ id: a.id, shape: shape(a.shape, b.shape), dtype: a.dtype });
  const produced = (a: TracedTensor, b: TracedTensor): MergedTensor => {
    twins.set(b.id, a.id);
    return tensor(a, b);
  };
  const used = (a: TracedTensor, b: TracedTensor): MergedTensor => {
    const [here, there] = [one.constants.get(a.id), other.constants.get(b.id)];
    if (here !== undefined && there !== undefined) {
      twins.set(b.id, a.id);
      if (!constants.has(a.id)) {
        const merged = tensor(a, b);
        constants.set(a.id, { ...merged, values: valuesOf(here, there, isFixed(merged.shape)) ?? fail('numbers of its own differ') });
      }
    }
    if ((twins.get(b.id) ?? b.id) !== a.id) {
      fail('its inputs depend on the number of examples');
    }
    return tensor(a, b);
  };

  const inputs = one.inputs.map((input, index) => produced(input, other.inputs[index] as TracedTensor));
  if (one.calls.length !== other.calls.length) {
    fail('what is computed depends on the number of examples');
  }
  const calls = one.calls.map((call, index): MergedCall => {
    const twin = other.calls[index];
    layer = call.layer;
    kernel = call.kernel;
    if (twin?.kernel !== kernel || twin.inputs.size !== call.inputs.size || twin.outputs.length !== call.outputs.length) {
      return fail('what is computed depends on the number of examples');
    }
    return {
      kernel,
      layer,
      inputs: new Map([...call.inputs].map(([name, input]) => [name, used(input, twin.inputs.get(name) ?? fail('its inputs differ'))])),
      attributes: attribute(call.attributes, twin.attributes) as MergedCall['attributes'],
      outputs: call.outputs.map((output, at) => produced(output, twin.outputs[at] as TracedTensor)),
    };
  });
  return { inputs, calls, constants, outputs: one.outputs.map((output, index) => used(output, other.outputs[index] as TracedTensor)) };
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

function isRecord(value: Attribute): value is { readonly [name: string]: Attribute } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
