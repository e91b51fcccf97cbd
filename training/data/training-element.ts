import type * as tfjs from '@tensorflow/tfjs';
import type { Column } from '../../contract/encoding/idx.ts';
import { TonyError } from '../../platform/errors.ts';
import { describeValue } from '../../platform/text/describe-value.ts';
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

/** Number of columns that an error lists. */
const MOST_NAMES = 8;

/**
 * Converts a training batch to tensors.
 * @throws TonyError DATA_INVALID if the element is not a training batch.
 */
export function tensorsOf(tf: typeof tfjs, element: unknown, names: ModelNames): RawBatch {
  const { xs, ys } = partsOf(element);
  const { sampleWeight } = element as { readonly sampleWeight?: unknown };
  const tensors = (parts: unknown, wanted: readonly string[], what: string) => {
    return listOf(parts, wanted, what).map((part) => (isColumn(part) ? tensorOfColumn(tf, part) : (part as tfjs.Tensor)));
  };
  const weights = sampleWeight === undefined ? {} : { sampleWeight: tensors(sampleWeight, [], 'sampleWeight')[0] as tfjs.Tensor };
  return { x: tensors(xs, names.inputs, 'xs'), y: tensors(ys, names.outputs, 'ys'), ...weights };
}

/**
 * Refuses named columns, such as those of a table, for a model with another number of inputs or outputs.
 * @throws TonyError DATA_INVALID
 */
export function refuseSeparateColumns(element: unknown, { inputs, outputs }: ModelNames): void {
  const { xs, ys } = partsOf(element);
  const [x, y] = [listOf(xs, inputs, 'xs').length, listOf(ys, outputs, 'ys').length];
  if (inputs.length === 0 || (x === inputs.length && y === outputs.length)) {
    return;
  }
  const [columns, targets] = [xs, ys].map((parts) => (Array.isArray(parts) || isPart(parts) ? null : Object.keys(parts as object)));
  if (!columns && !targets) {
    return;
  }
  const combined = (part: string, names: readonly string[] | null | undefined, wanted: number) =>
    names && wanted === 1
      ? `[${shownNames(names)
          .map((name) => (name === '...' ? name : fieldOf(part, name)))
          .join(', ')}]`
      : part;
  throw new TonyError(
    'DATA_INVALID',
    `the data has ${x} inputs and ${y} targets; the model has ${inputs.length} and ${outputs.length}${columns ? ` (columns: ${shownNames(columns).join(', ')})` : ''}`,
    {
      hint: `Combine the columns into one array per example before batch: dataset.map(({ xs, ys }) => ({ xs: ${combined('xs', columns, inputs.length)}, ys: ${combined('ys', targets, outputs.length)} })).`,
    },
  );
}

function shownNames(names: readonly string[]): readonly string[] {
  return names.length > MOST_NAMES ? [...names.slice(0, MOST_NAMES), '...'] : names;
}

function fieldOf(part: string, name: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(name) ? `${part}.${name}` : `${part}[${JSON.stringify(name)}]`;
}

/** Returns the number of examples in a batch. */
export function countExamplesOf(element: unknown): number {
  const [first] = listOf(partsOf(element).xs, [], 'xs');
  return (first as Part).shape[0] ?? 0;
}

function partsOf(element: unknown): { readonly xs: unknown; readonly ys: unknown } {
  if (typeof element === 'object' && element !== null) {
    if ('xs' in element && 'ys' in element) {
      return { xs: element.xs, ys: element.ys };
    }
    if ('x' in element && 'y' in element) {
      return { xs: element.x, ys: element.y };
    }
  }
  throw new TonyError('DATA_INVALID', `an element of the dataset is ${describeValue(element)}, but fit expects the form { xs, ys }`, {
    hint: 'Map them: dataset.map(({ image, label }) => ({ xs: image, ys: label })).',
  });
}

function listOf(parts: unknown, names: readonly string[], what: string): readonly unknown[] {
  // A list without any column is itself a batch of other values, such as strings.
  const entries = Array.isArray(parts)
    ? parts.map((part, index) => [parts.some(isPart) ? `${what}[${index}]` : what, part] as const)
    : isPart(parts)
      ? [[what, parts] as const]
      : fieldsOf(parts, names).map(([name, part]) => [`${what}.${name}`, part] as const);
  const odd = entries.length === 0 ? ([what, parts] as const) : entries.find(([, part]) => !isPart(part));
  if (odd !== undefined) {
    const [place, value] = odd;
    throw new TonyError('DATA_INVALID', `${place} of an element of the dataset is ${describeValue(value)} instead of a batch of numbers`, {
      hint: 'fit accepts batches of columns or tensors. Map strings and bytes to numbers first.',
    });
  }
  return entries.map(([, part]) => part);
}

function fieldsOf(parts: unknown, names: readonly string[]): readonly (readonly [name: string, value: unknown])[] {
  if (typeof parts !== 'object' || parts === null) {
    return [];
  }
  const byName = parts as Readonly<Record<string, unknown>>;
  const hasNames = names.length > 0 && names.every((name) => name in byName);
  return hasNames ? names.map((name) => [name, byName[name]] as const) : Object.entries(byName);
}

function isPart(value: unknown): boolean {
  return isColumn(value) || (typeof value === 'object' && value !== null && 'dataSync' in value);
}
