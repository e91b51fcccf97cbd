/** Mean time that a job's training steps spend on each activity, from the `profile/...` metrics. */
export interface MeanStepProfile {
  readonly stepMs: number;
  /** Activities that take at least 0.05 ms, longest first. */
  readonly activities: readonly { readonly name: string; readonly ms: number }[];
  /** Rank with the longest busy time, or undefined if the job has only one rank. */
  readonly slowestRank: number | undefined;
}

type Metrics = Readonly<Record<string, number>>;

const PREFIX = 'profile/';

/** Returns the profile that the metrics contain, or null if the job has not reported one. */
export function stepProfile(metrics: Metrics): MeanStepProfile | null {
  const activities = Object.entries(metrics).flatMap(([metric, ms]) => {
    const name = /^profile\/([a-z]+)_ms$/.exec(metric)?.[1];
    return name === undefined || name === 'step' || ms < 0.05 ? [] : [{ name, ms }];
  });
  if (activities.length === 0) {
    return null;
  }
  const stepMs = metrics[`${PREFIX}step_ms`] ?? activities.reduce((sum, { ms }) => sum + ms, 0);
  return { stepMs, activities: activities.sort((a, b) => b.ms - a.ms), slowestRank: metrics[`${PREFIX}slowest_rank`] };
}

/** Returns the metrics without the profile, for tables and lists that show other metrics only. */
export function withoutProfile(metrics: Metrics): Record<string, number> {
  return Object.fromEntries(Object.entries(metrics).filter(([name]) => !name.startsWith(PREFIX)));
}
