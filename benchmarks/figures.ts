/** The results of all benchmarks have this form, so that `npm run bench -- all` can print them together. */
export interface Figure {
  /** What was measured, such as `2 ranks, 16 MiB: OpenMPI's time / ours`. Unique within the benchmark. */
  readonly what: string;
  /** A median over the rounds. */
  readonly value: number;
  /** `x` is a ratio. */
  readonly unit: string;
  readonly goal?: Goal | undefined;
  /** The values from which a ratio was computed, or other details. */
  readonly detail?: string;
}

export type Goal = { readonly atLeast: number } | { readonly atMost: number };

/** Returns no goal for undefined. */
export function atLeast(value: number | undefined): Goal | undefined {
  return value === undefined ? undefined : { atLeast: value };
}

/** Returns no goal for undefined. */
export function atMost(value: number | undefined): Goal | undefined {
  return value === undefined ? undefined : { atMost: value };
}

/** Prints a line for each figure: a table row, or a JSON object with `benchmark`, `what`, `value`, `unit`, `goal`, `isMet` and `detail`. */
export function showFigures(benchmark: string, figures: readonly Figure[], output: string): void {
  for (const figure of figures) {
    process.stdout.write(`${output === 'json' ? JSON.stringify(recordOf(benchmark, figure)) : rowOf(figure)}\n`);
  }
}

function recordOf(benchmark: string, { what, value, unit, goal, detail }: Figure): Readonly<Record<string, unknown>> {
  const aim = goal === undefined ? {} : { goal: textOf(goal), isMet: isMet(value, goal) };
  return { benchmark, what, value: Number(shown(value)), unit, ...aim, ...(detail === undefined ? {} : { detail }) };
}

function rowOf({ what, value, unit, goal, detail }: Figure): string {
  const verdict = goal === undefined ? '' : `${textOf(goal).padEnd(8)}${isMet(value, goal) ? 'met' : 'missed'}`;
  return `${what.padEnd(58)}${shown(value).padStart(9)} ${unit.padEnd(8)}${verdict.padEnd(16)}${detail ?? ''}`.trimEnd();
}

function textOf(goal: Goal): string {
  return 'atLeast' in goal ? `>= ${goal.atLeast}` : `<= ${goal.atMost}`;
}

/** The verdict uses the number that the reader sees. */
function isMet(value: number, goal: Goal): boolean {
  return 'atLeast' in goal ? Number(shown(value)) >= goal.atLeast : Number(shown(value)) <= goal.atMost;
}

function shown(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}
