import type { Job } from './job.ts';
import type { Amounts } from './quota-schema.ts';
import { demandOf } from './quotas.ts';

/*
 * What a job asks for by role, as application tags: the one thing that everybody may read of every application of a cluster.
 *
 *   tony-roles:worker:4:m16384:v4:g8+ps:2:m4096:v2:yarn.io/fpga=2
 *
 * For each role its name, its tasks, and what these take together: m memory (MiB), v vcores, g GPUs, others by their names. YARN takes ten tags of
 * an application, each of 100 ASCII characters, and writes them in small letters: roles are put together into as few tags as they fit into.
 */

const PREFIX = 'tony-roles:';
const MAX_TAG = 100;
const SHORT = { memory: 'm', vcores: 'v', gpus: 'g' } as const;

export function roleTags(job: Pick<Job, 'roles'>): string[] {
  const parts = Object.entries(demandOf(job)).map(([role, { instances = 0, ...amounts }]) =>
    [role, String(instances), ...Object.entries(amounts).flatMap(([name, amount]) => fieldOf(name, amount ?? 0))].join(':'),
  );
  const tags: string[] = [];
  // Nobody has so many resource types; who says nothing is counted by what the ResourceManager says.
  if (parts.some((part) => PREFIX.length + part.length > MAX_TAG)) return [];
  for (const part of parts) {
    const last = tags.at(-1);
    if (last !== undefined && last.length + 1 + part.length <= MAX_TAG) tags[tags.length - 1] = `${last}+${part}`;
    else tags.push(`${PREFIX}${part}`);
  }
  return tags;
}

export function isRoleTag(tag: string): boolean {
  return tag.toLowerCase().startsWith(PREFIX);
}

function fieldOf(name: string, amount: number): string[] {
  if (amount === 0) return [];
  const short = (SHORT as Readonly<Record<string, string>>)[name];
  return [short === undefined ? `${name}=${amount}` : `${short}${amount}`];
}

/** What `roleTags` said; null when the tags say nothing that can be understood: another version's job, or one that hides what it takes. */
export function rolesOfTags(tags: readonly string[]): Record<string, Amounts> | null {
  const roles: Record<string, Amounts> = {};
  const parts = tags.filter((tag) => tag.startsWith(PREFIX)).flatMap((tag) => tag.slice(PREFIX.length).split('+'));
  for (const part of parts) {
    const [role = '', instances = '', ...fields] = part.split(':');
    const amounts = fields.map(amountOf);
    if (role === '' || !isCount(instances) || amounts.includes(null) || Object.hasOwn(roles, role)) return null;
    roles[role] = { instances: Number(instances), ...Object.fromEntries(amounts as [string, number][]) };
  }
  return parts.length === 0 ? null : roles;
}

function amountOf(field: string): [string, number] | null {
  const [, named, amount = ''] = /^(.+)=(\d+)$/.exec(field) ?? [];
  if (named !== undefined) return isCount(amount) ? [named, Number(amount)] : null;
  const name = Object.entries(SHORT).find(([, short]) => short === field[0])?.[0];
  return name !== undefined && isCount(field.slice(1)) ? [name, Number(field.slice(1))] : null;
}

function isCount(text: string): boolean {
  return /^\d{1,15}$/.test(text);
}
