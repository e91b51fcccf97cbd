import { readFileSync } from 'node:fs';
import { TonyError } from '../../platform/errors.ts';
import { grid, randomSearch } from './sweep-space.ts';
import { bestNotice, csvOf, decodeTrial, printed, ranked, type SweepMode, summaryOf, tableOf } from './sweep-table.ts';

/** A call of `grid` or `randomSearch`, and the configurations or the message of its error. */
export interface SpaceCase {
  readonly space: Readonly<Record<string, readonly (string | number | boolean)[]>>;
  /** Without trials, the call is one of `grid`. */
  readonly trials?: number;
  readonly seed?: number;
  readonly result?: unknown;
}

export interface TableCase {
  readonly metric: string;
  readonly mode: SweepMode;
  /** As in the files of the trials. */
  readonly trials: readonly unknown[];
  readonly result?: unknown;
}

export interface SweepCases {
  readonly spaces: readonly SpaceCase[];
  readonly tables: readonly TableCase[];
}

/** Cases that the tests of TypeScript and of Python run. */
export const CASES = JSON.parse(readFileSync(new URL('sweep-cases.json', import.meta.url), 'utf8')) as SweepCases;

export function resultOfSpace({ space, trials, seed }: SpaceCase): unknown {
  try {
    return trials === undefined ? grid(space) : randomSearch(space, { trials, ...(seed !== undefined && { seed }) });
  } catch (error) {
    if (!(error instanceof TonyError && error.code === 'USAGE')) {
      throw error;
    }
    // Only the messages of TypeScript name the function that has the option.
    return error.message.replace(' of randomSearch is ', ' is ');
  }
}

export function resultOfTable({ metric, mode, trials }: TableCase): unknown {
  const all = ranked(
    trials.map((trial) => decodeTrial(JSON.stringify(trial))),
    metric,
    mode,
  );
  const table = tableOf(all);
  return {
    order: all.map(({ index }) => index),
    notice: bestNotice(all, metric, mode),
    summaries: all.map(summaryOf),
    csv: csvOf(table),
    printed: printed(table).split('\n'),
  };
}
