import { afterAll, beforeAll } from 'vitest';
import type { Properties } from './cluster/configuration.mjs';
import type { TestCluster } from './harness.ts';
import { refreshQueues } from './refresh-queues.ts';

const MONITOR = 'yarn.resourcemanager.monitor.capacity.preemption';

/** While the tests of this file run, the Capacity Scheduler preempts containers of queues that exceed their share, 8 s after a warning. */
export function usePreemption(cluster: TestCluster): void {
  const setScheduler = async (scheduler: Properties): Promise<void> => {
    await cluster.configure({ scheduler });
    await refreshQueues(cluster);
  };
  beforeAll(() =>
    setScheduler({
      'yarn.scheduler.capacity.root.disable_preemption': false,
      [`${MONITOR}.monitoring_interval`]: 500,
      [`${MONITOR}.max_wait_before_kill`]: 8_000,
      [`${MONITOR}.total_preemption_per_round`]: '1.0',
      [`${MONITOR}.natural_termination_factor`]: '1.0',
      [`${MONITOR}.max_ignored_over_capacity`]: '0.0',
    }),
  );
  afterAll(() => setScheduler({}));
}
