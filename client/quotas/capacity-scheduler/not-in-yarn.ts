import type { JobLimits, Quotas, RoleLimits } from '../../../conf/quota-schema.ts';
import { firstNames } from '../../../platform/text/first-names.ts';
import type { SchedulerDraft } from './scheduler-draft.ts';

type Reason = 'role' | 'job' | 'count' | 'sum' | 'who' | 'idle';

const REASONS: Readonly<Record<Reason, string>> = {
  role: 'YARN has no roles; in each queue, it enforces only the largest task limit of any role (maximum-allocation)',
  job: 'YARN does not limit the resources of a single job',
  count: 'YARN does not limit the number of containers in a queue',
  sum: 'YARN does not add up the resources of a user or group across queues',
  who: 'YARN has no such limit for users and groups',
  idle: 'YARN cannot detect whether a job is idle',
};
const MOST_PATHS = 6;

/** Adds a notice for each kind of limit that YARN cannot enforce and that only tony-ts ApplicationMasters enforce. */
export function noticeOthers(draft: SchedulerDraft, quotas: Quotas): void {
  const found = new Map<Reason, string[]>();
  for (const kind of ['roles', 'users', 'groups', 'queues'] as const) {
    for (const [name, limits] of Object.entries(quotas[kind]) as [string, JobLimits][]) {
      const path = `quotas.${kind}.${name}`;
      const { roles = {}, ...own } = limits;
      const all: [string, string, RoleLimits | JobLimits][] = [
        [path, kind, own],
        ...Object.entries(roles).map(([role, ofRole]): [string, string, RoleLimits] => [`${path}.roles.${role}`, 'roles', ofRole]),
      ];
      for (const [place, what, each] of all) {
        for (const key of Object.keys(each)) {
          for (const reason of reasonsOf(what, key, each)) {
            found.set(reason, [...(found.get(reason) ?? []), `${place}.${key}`]);
          }
        }
      }
    }
  }
  for (const [reason, text] of Object.entries(REASONS) as [Reason, string][]) {
    const paths = found.get(reason);
    if (paths !== undefined) {
      draft.notice(`${text}: ${firstNames(paths, MOST_PATHS)}.`);
    }
  }
}

function reasonsOf(kind: string, key: string, limits: RoleLimits): Reason[] {
  if (kind === 'roles') {
    return ['role'];
  }
  const isOfQueue = kind === 'queues';
  switch (key) {
    case 'instances':
    case 'job':
      return ['job'];
    case 'total':
      if (!isOfQueue) {
        return ['sum'];
      }
      return limits.total?.instances === undefined ? [] : ['count'];
    case 'idle':
      return ['idle'];
    case 'task':
    case 'timeout':
    case 'nodeLabels':
      return isOfQueue ? [] : ['who'];
    default:
      return [];
  }
}
