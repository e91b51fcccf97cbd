import type { ScalarCharts, ScalarSeries } from '../../../job-view.ts';

/** One run's line in a chart, with strictly ascending steps. */
export interface RunCurve extends Omit<ScalarSeries, 'tag'> {
  readonly run: string;
}

export interface TagCurves {
  readonly tag: string;
  readonly curves: readonly RunCurve[];
}

/** Returns one chart per tag: loss and throughput first, then all other tags in natural name order. */
export function curvesByTag({ runs }: ScalarCharts): TagCurves[] {
  const byTag = new Map<string, RunCurve[]>();
  for (const { name, scalars } of runs) {
    for (const { tag, steps, times, values } of scalars) {
      const curve = withoutOverwritten({ run: name, steps, times, values });
      byTag.set(tag, [...(byTag.get(tag) ?? []), curve]);
    }
  }
  return [...byTag]
    .map(([tag, curves]) => ({ tag, curves }))
    .sort((a, b) => importance(a.tag) - importance(b.tag) || a.tag.localeCompare(b.tag, 'en', { numeric: true }));
}

export function isLoss(tag: string): boolean {
  return /(^|[^a-z])loss/i.test(tag);
}

export function isThroughput(tag: string): boolean {
  return /(per[_\s-]?sec(ond)?|throughput|\/s$|steps[_\s-]?per)/i.test(tag);
}

function importance(tag: string): number {
  if (isLoss(tag)) {
    return 0;
  }
  if (isThroughput(tag)) {
    return 1;
  }
  return /(^|[^a-z])(acc(uracy)?|auc|f1|precision|recall|error|perplexity)([^a-z]|$)/i.test(tag) ? 2 : 3;
}

/**
 * Removes points that a later point replaces. Training that resumes from a checkpoint writes some steps again, and TensorBoard shows the
 * newer values.
 */
function withoutOverwritten(curve: RunCurve): RunCurve {
  if (curve.steps.every((step, index) => index === 0 || step > (curve.steps[index - 1] ?? 0))) {
    return curve;
  }
  const kept: number[] = [];
  for (const [index, step] of curve.steps.entries()) {
    while (kept.length > 0 && (curve.steps[kept.at(-1) ?? 0] ?? 0) >= step) {
      kept.pop();
    }
    kept.push(index);
  }
  return {
    run: curve.run,
    steps: kept.map((index) => curve.steps[index] ?? 0),
    times: kept.map((index) => curve.times[index] ?? 0),
    values: kept.map((index) => curve.values[index] ?? null),
  };
}

/**
 * Smooths the values with an exponential moving average, as TensorBoard does for the same slider position. With `weight` 0, the values do
 * not change. With a weight near 1, only the trend remains. The bias correction keeps the first value unchanged.
 */
export function smoothed(values: readonly (number | null)[], weight: number): (number | null)[] {
  if (weight <= 0) {
    return [...values];
  }
  let last = 0;
  let count = 0;
  return values.map((value) => {
    if (value === null) {
      return null;
    }
    last = last * weight + (1 - weight) * value;
    count++;
    return last / (1 - weight ** count);
  });
}

/** Replaces with null the values that a logarithmic scale cannot show. */
export function positive(values: readonly (number | null)[]): (number | null)[] {
  return values.map((value) => (value !== null && value > 0 ? value : null));
}

/** Returns the index of the value nearest to `x` in the ascending `xs`, or -1 if `xs` is empty. */
export function nearest(xs: readonly number[], x: number): number {
  let low = 0;
  let high = xs.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((xs[middle] ?? 0) < x) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const after = xs[low];
  const before = xs[low - 1];
  if (before === undefined) {
    return after === undefined ? -1 : 0;
  }
  return after === undefined || x - before <= after - x ? low - 1 : low;
}
