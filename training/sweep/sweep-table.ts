import { csvLine } from '../inference/predict-format.ts';
import type { Configuration } from './sweep-space.ts';

// python/tony/_sweeps/table.py follows the same rules. sweep-cases.json contains cases that the tests of both languages run.

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

export type SweepMode = 'max' | 'min';

/**
 * Sorts trials from best to worst. Trials whose metric is missing, NaN or infinite come last. Ties keep the order of the configurations.
 */
export function ranked<C extends Configuration>(trials: readonly TrialResult<C>[], metric: string, mode: SweepMode): TrialResult<C>[] {
  const sign = mode === 'max' ? -1 : 1;
  const key = (trial: TrialResult<C>) => {
    const value = own(trial.metrics, metric);
    return value !== undefined && Number.isFinite(value) ? sign * value : Number.POSITIVE_INFINITY;
  };
  return [...trials].sort((a, b) => {
    const [left, right] = [key(a), key(b)];
    return left < right ? -1 : left > right ? 1 : a.index - b.index;
  });
}

/** Returns the best trial, or null if no trial has a finite metric. */
export function bestOf<C extends Configuration>(
  trials: readonly TrialResult<C>[],
  metric: string,
  mode: SweepMode,
): { readonly trial: TrialResult<C>; readonly value: number } | null {
  const trial = ranked(trials, metric, mode)[0];
  const value = trial === undefined ? undefined : own(trial.metrics, metric);
  return trial === undefined || value === undefined || !Number.isFinite(value) ? null : { trial, value };
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

/** Describes a finished trial in a line of text: `trial-00003 {"rate":0.1}: accuracy 0.97 (2.0 s)`. */
export function summaryOf(trial: TrialResult): string {
  const values = Object.entries(trial.metrics).map(([name, value]) => `${name} ${shortened(value)}`);
  return `${titleOf(trial)}: ${trial.error ?? values.join(', ')} (${trial.seconds.toFixed(1)} s)`;
}

/** The notice that names the best trial. */
export function bestNotice(trials: readonly TrialResult[], metric: string, mode: SweepMode): string | null {
  const best = bestOf(trials, metric, mode);
  return best && `the best of ${trials.length} trials is ${titleOf(best.trial)}: ${metric} ${shortened(best.value)}`;
}

/** The trial's name and configuration, for messages. */
export function titleOf({ name, configuration }: Pick<TrialResult, 'name' | 'configuration'>): string {
  return `${name} ${JSON.stringify(configuration)}`;
}

type Cell = string | number;

/**
 * Returns the trial table. The first row contains the column names, which are unique: a name that appears twice is followed by
 * `(parameter)` or `(metric)`.
 */
export function tableOf(trials: readonly TrialResult[]): Cell[][] {
  const parameters = distinct(trials.flatMap(({ configuration }) => Object.keys(configuration)));
  const metrics = distinct(trials.flatMap((trial) => Object.keys(trial.metrics)));
  const errors = trials.some(({ error }) => error !== null) ? ['error'] : [];
  const fixed = ['trial', 'seconds', ...errors];
  const header = [
    'trial',
    ...parameters.map((name) => (fixed.includes(name) ? `${name} (parameter)` : name)),
    ...metrics.map((name) => (fixed.includes(name) || parameters.includes(name) ? `${name} (metric)` : name)),
    'seconds',
    ...errors,
  ];
  const rows = trials.map((trial) => [
    trial.name,
    ...parameters.map((name) => cellOf(own(trial.configuration, name))),
    ...metrics.map((name) => cellOf(own(trial.metrics, name))),
    trial.seconds.toFixed(1),
    ...errors.map(() => trial.error ?? ''),
  ]);
  return [header, ...rows];
}

export function csvOf(table: readonly (readonly Cell[])[]): string {
  return table.map(csvLine).join('');
}

/** Aligns the columns of a table for display. Shortens numbers, and replaces line breaks with spaces. */
export function printed(table: readonly (readonly Cell[])[]): string {
  const rows = table.map((row) => row.map((cell) => (typeof cell === 'number' ? shortened(cell) : cell.replace(UNPRINTABLE, ' '))));
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => lengthOf(row[column] ?? ''))));
  return rows
    .map((row) => {
      const last = row.findLastIndex((text) => text !== '');
      const padded = (text: string, column: number) => text + ' '.repeat((widths[column] ?? 0) - lengthOf(text));
      return row
        .slice(0, last + 1)
        .map((text, column) => (column === last ? text : padded(text, column)))
        .join('  ');
    })
    .join('\n');
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters would break the lines of the table
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g;

function lengthOf(text: string): number {
  return [...text].length;
}

/** A fraction with at most five significant digits, and a whole number unchanged. */
function shortened(value: number): string {
  return String(Number.isInteger(value) ? value : Number(value.toPrecision(5)));
}

function cellOf(value: unknown): Cell {
  return value === undefined ? '' : typeof value === 'string' || typeof value === 'number' ? value : JSON.stringify(value);
}

function own<Value>(values: Readonly<Record<string, Value>>, name: string): Value | undefined {
  return Object.hasOwn(values, name) ? values[name] : undefined;
}

function distinct(names: readonly string[]): string[] {
  return [...new Set(names)];
}
