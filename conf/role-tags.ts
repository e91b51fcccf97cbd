import { sumOf } from '../platform/sum-of.ts';
import type { Job } from './job.ts';
import type { Amounts } from './quota-schema.ts';
import { type Demand, demandOf, largest } from './quotas.ts';
import { ROLE_NAME } from './values/role-name.ts';

/*
 * Encoding of a job's resource demand in YARN application tags. Quotas need the demand of other users' jobs, and tags are the only application
 * data that all users of a cluster can read.
 *
 *   tony-roles:*:0:m1024:v1+worker:4:m16384:v4:g8+ps:2:m4096:v2:yarn.io/fpga=2
 *
 * An entry contains the name of the role, the number of tasks, and their total resources: m memory (MiB), v vcores, g GPUs, and other
 * resource types by name. `*` is the ApplicationMaster's entry. `^` is the peak of all tasks, and is omitted if it equals the sum of the
 * roles, as in every job whose roles all run at the same time. By default, YARN accepts ten tags of 100 ASCII characters per application,
 * and converts them to lower case. Each tag therefore contains as many entries as fit.
 */

const PREFIX = 'tony-roles:';
/** YARN's default limit for the length of an application tag. */
export const LONGEST_TAG = 100;
const MASTER = '*';
const PEAK = '^';
const SHORT = { memory: 'm', vcores: 'v', gpus: 'g' } as const;

/** Encodes a job's demand as application tags. If one role's demand does not fit into a tag, returns an empty list. */
export function roleTags(job: Pick<Job, 'roles' | 'master'>): string[] {
  const { roles, peak, master } = demandOf(job);
  const sum = sumOf(Object.values(roles));
  const isStaged = Object.entries(sum).some(([name, amount]) => amount !== peak[name]);
  const parts = Object.entries({ [MASTER]: master, ...(isStaged && { [PEAK]: peak }), ...roles }).map(
    ([role, { instances = 0, ...amounts }]) =>
      [role, String(instances), ...Object.entries(amounts).flatMap(([name, amount]) => fieldOf(name, amount ?? 0))].join(':'),
  );
  const tags: string[] = [];
  // This happens only if a job requests dozens of resource types. Quotas then use the amounts that the ResourceManager reports.
  if (parts.some((part) => PREFIX.length + part.length > LONGEST_TAG)) {
    return [];
  }
  for (const part of parts) {
    const last = tags.at(-1);
    if (last !== undefined && last.length + 1 + part.length <= LONGEST_TAG) {
      tags[tags.length - 1] = `${last}+${part}`;
    } else {
      tags.push(`${PREFIX}${part}`);
    }
  }
  return tags;
}

export function isRoleTag(tag: string): boolean {
  return tag.toLowerCase().startsWith(PREFIX);
}

function fieldOf(name: string, amount: number): string[] {
  if (amount === 0) {
    return [];
  }
  const short = (SHORT as Readonly<Record<string, string>>)[name];
  return [short === undefined ? `${name}=${amount}` : `${short}${amount}`];
}

/** Decodes the demand from application tags. Returns null if the tags are missing or invalid. */
export function demandOfTags(tags: readonly string[]): Demand | null {
  const found = new Map<string, Amounts>();
  const parts = tags.filter((tag) => tag.startsWith(PREFIX)).flatMap((tag) => tag.slice(PREFIX.length).split('+'));
  for (const part of parts) {
    const [name = '', instances = '', ...fields] = part.split(':');
    const amounts = fields.map(amountOf);
    if ((name !== MASTER && name !== PEAK && !ROLE_NAME.test(name)) || !isCount(instances) || amounts.includes(null) || found.has(name)) {
      return null;
    }
    found.set(name, { ...Object.fromEntries(amounts as [string, number][]), instances: Number(instances) });
  }
  const { instances: _, ...master } = found.get(MASTER) ?? {};
  const peak = found.get(PEAK);
  found.delete(MASTER);
  found.delete(PEAK);
  const roles = [...found.values()];
  // The tasks of one role run at the same time, so no peak is less than the demand of a role.
  return found.size === 0
    ? null
    : { roles: Object.fromEntries(found), peak: peak === undefined ? sumOf(roles) : largest([peak, ...roles]), master };
}

function amountOf(field: string): [string, number] | null {
  const [, named, amount = ''] = /^([^=]+)=(\d+)$/.exec(field) ?? [];
  if (named !== undefined) {
    return isCount(amount) ? [named, Number(amount)] : null;
  }
  const name = Object.entries(SHORT).find(([, short]) => short === field[0])?.[0];
  return name !== undefined && isCount(field.slice(1)) ? [name, Number(field.slice(1))] : null;
}

function isCount(text: string): boolean {
  return /^\d{1,15}$/.test(text);
}
