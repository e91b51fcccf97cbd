import type { Configuration } from './sweep-space.ts';

export interface TrialResult<C extends Configuration = Configuration> {
  readonly index: number;
  /** The trial name, for example `trial-00003`. */
  readonly name: string;
  readonly configuration: C;
  readonly metrics: Readonly<Record<string, number>>;
  readonly seconds: number;
  readonly task: string;
  /** The reason why the trial has no metrics, or null if it succeeded. */
  readonly error: string | null;
}

export type Goal = 'maximize' | 'minimize';

/** Sorts trials from best to worst. Trials whose metric is missing or NaN come last. Ties keep the order of the configurations. */
export function ranked<C extends Configuration>(trials: readonly TrialResult<C>[], metric: string, goal: Goal): TrialResult<C>[] {
  const sign = goal === 'maximize' ? -1 : 1;
  const key = ({ metrics }: TrialResult<C>) => {
    const value = metrics[metric];
    return value === undefined || Number.isNaN(value) ? Number.POSITIVE_INFINITY : sign * value;
  };
  return [...trials].sort((a, b) => {
    const [left, right] = [key(a), key(b)];
    return left < right ? -1 : left > right ? 1 : a.index - b.index;
  });
}

/** Encodes a trial as JSON. NaN and infinite numbers become strings, which `decodeTrial` converts back. */
export function encodeTrial(trial: TrialResult): string {
  const metrics = Object.fromEntries(
    Object.entries(trial.metrics).map(([name, value]) => [name, Number.isFinite(value) ? value : String(value)]),
  );
  return JSON.stringify({ ...trial, metrics });
}

export function decodeTrial<C extends Configuration>(text: string): TrialResult<C> {
  const trial = JSON.parse(text) as TrialResult<C>;
  return { ...trial, metrics: Object.fromEntries(Object.entries(trial.metrics).map(([name, value]) => [name, Number(value)])) };
}

/** Returns the trial table as rows of strings. The first row contains the column names. */
export function tableOf(trials: readonly TrialResult[]): string[][] {
  const parameters = distinct(trials.flatMap(({ configuration }) => Object.keys(configuration)));
  const metrics = distinct(trials.flatMap((trial) => Object.keys(trial.metrics)));
  const hasErrors = trials.some(({ error }) => error !== null);
  const header = ['trial', ...parameters, ...metrics, 'seconds', ...(hasErrors ? ['error'] : [])];
  const rows = trials.map((trial) => [
    trial.name,
    ...parameters.map((name) => String(trial.configuration[name] ?? '')),
    ...metrics.map((name) => String(trial.metrics[name] ?? '')),
    trial.seconds.toFixed(1),
    ...(hasErrors ? [trial.error ?? ''] : []),
  ]);
  return [header, ...rows];
}

/** Aligns the columns of a table and shortens numbers, for display. */
export function printed(table: readonly (readonly string[])[]): string {
  const short = table.map((row) => row.map((text) => (/^-?\d+\.\d{5,}(e[+-]?\d+)?$/.test(text) ? Number(text).toPrecision(5) : text)));
  const widths = (short[0] ?? []).map((_, column) => Math.max(...short.map((row) => (row[column] ?? '').length)));
  return short
    .map((row) =>
      row
        .map((text, column) => text.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

function distinct(names: readonly string[]): string[] {
  return [...new Set(names)];
}
