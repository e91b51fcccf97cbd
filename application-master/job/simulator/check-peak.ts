import type { Job } from '../../../conf/job.ts';
import { demandOf } from '../../../conf/quotas.ts';
import type { Cluster } from './cluster.ts';
import { violate, type World } from './world.ts';

/**
 * Verifies that the job never has more containers than the quotas count. Counts at most one container per task, because a replacement may
 * start before the previous container has ended.
 */
export function checkPeak(world: World, job: Job, { containers }: Cluster): void {
  const held = [...containers.values()].filter(({ phase }) => phase === 'launching' || phase === 'live');
  const counts = job.roles.map(({ name, maxInstances }) =>
    Math.min(maxInstances, held.filter(({ container }) => container.role === name).length),
  );
  const sum = counts.reduce((all, count) => all + count, 0);
  const peak = demandOf(job).peak.instances ?? 0;
  if (sum > peak) {
    violate(world, `the job holds ${sum} containers at the same time, but the quotas count only ${peak}`);
  }
}
