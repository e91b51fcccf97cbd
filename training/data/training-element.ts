import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../platform/errors.ts';
import type { Column } from '../encoding/idx.ts';
import type { RawBatch } from './data.ts';
import { isColumn } from './transforms/collate.ts';
import { tensorOfColumn } from './transforms/tensors.ts';

type Part = tfjs.Tensor | Column;
type Parts = Part | readonly Part[] | Readonly<Record<string, Part>>;

/**
 * A dataset batch that `fit` can train on: inputs, targets and optionally the weight of each example in the loss. Inputs and targets can be
 * a single column, a list in the model's order, or an object whose keys are the model's input or output names.
 */
export type TrainingElement = ({ readonly xs: Parts; readonly ys: Parts } | { readonly x: Parts; readonly y: Parts }) & {
  readonly sampleWeight?: Part;
};

export interface ModelNames {
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
}

/**
 * Converts a training batch to tensors.
 * @throws TonyError DATA_INVALID if the element is not a training batch.
 */
export function tensorsOf(tf: typeof tfjs, element: unknown, names: ModelNames): RawBatch {
  const [xs, ys] = partsOf(element);
  const { sampleWeight } = element as { readonly sampleWeight?: unknown };
  const tensors = (parts: unknown, wanted: readonly string[]) => {
    return listOf(parts, wanted).map((part) => (isColumn(part) ? tensorOfColumn(tf, part) : (part as tfjs.Tensor)));
  };
  const weights = sampleWeight === undefined ? {} : { sampleWeight: tensors(sampleWeight, [])[0] as tfjs.Tensor };
  return { x: tensors(xs, names.inputs), y: tensors(ys, names.outputs), ...weights };
}

/** Returns the number of examples in a batch. */
export function countExamplesOf(element: unknown): number {
  const [first] = listOf(partsOf(element)[0], []);
  return (first as Part).shape[0] ?? 0;
}

function partsOf(element: unknown): readonly [xs: unknown, ys: unknown] {
  if (typeof element === 'object' && element !== null) {
    if ('xs' in element && 'ys' in element) {
      return [element.xs, element.ys];
    }
    if ('x' in element && 'y' in element) {
      return [element.x, element.y];
    }
  }
  throw new TonyError('DATA_INVALID', "the dataset's elements do not have the form { xs, ys }", {
    hint: 'Map them: dataset.map(({ image, label }) => ({ xs: image, ys: label })).',
  });
}

function listOf(parts: unknown, names: readonly string[]): readonly unknown[] {
  const list = Array.isArray(parts) ? parts : isPart(parts) ? [parts] : valuesOf(parts, names);
  if (list.length === 0 || !list.every(isPart)) {
    throw new TonyError('DATA_INVALID', "the dataset's elements are not batches of numbers", {
      hint: 'fit accepts batches of columns or tensors. Map strings and bytes to numbers first.',
    });
  }
  return list;
}

function valuesOf(parts: unknown, names: readonly string[]): readonly unknown[] {
  if (typeof parts !== 'object' || parts === null) {
    return [];
  }
  const byName = parts as Readonly<Record<string, unknown>>;
  const hasNames = names.length > 0 && names.every((name) => name in byName);
  return hasNames ? names.map((name) => byName[name]) : Object.values(byName);
}

function isPart(value: unknown): boolean {
  return isColumn(value) || (typeof value === 'object' && value !== null && 'dataSync' in value);
}
