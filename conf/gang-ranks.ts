import { frameworkOf } from './frameworks.ts';
import type { Job } from './job.ts';
import { processesOf } from './processes.ts';

/**
 * Returns the ranks of each role of kind gang when the job starts with its minimum number of tasks, keyed by role name, in text form: `0-1`,
 * or `0, 3-4` if task 0 of a later role is the chief, which has rank 0. A task that runs several processes has several ranks.
 */
export function gangRanks({
  roles,
  framework,
  processesPerTask,
}: Pick<Job, 'roles' | 'framework' | 'processesPerTask'>): Map<string, string> {
  const gang = roles.filter(({ kind }) => kind === 'gang');
  const runsProcesses = frameworkOf(framework).runsProcesses === true;
  const ranges = new Map<string, { from: number; to: number }[]>();
  let next = 0;
  const add = (role: Job['roles'][number], tasks: number): void => {
    if (tasks === 0) {
      return;
    }
    const count = tasks * (runsProcesses ? processesOf(processesPerTask, role) : 1);
    const own = ranges.get(role.name) ?? [];
    const last = own.at(-1);
    ranges.set(
      role.name,
      last?.to === next - 1 ? [...own.slice(0, -1), { ...last, to: next + count - 1 }] : [...own, { from: next, to: next + count - 1 }],
    );
    next += count;
  };
  const chief = gang.find((role) => role.chief);
  if (chief !== undefined) {
    add(chief, 1);
  }
  for (const role of gang) {
    add(role, role.instances - (role === chief ? 1 : 0));
  }
  return new Map(
    [...ranges].map(([name, own]) => [name, own.map(({ from, to }) => (from === to ? `${from}` : `${from}-${to}`)).join(', ')]),
  );
}
