import type { Job, Role } from '../conf/job.ts';

export interface Place {
  readonly role: Role;
  readonly index: number;
  /** Only tasks of ranked roles have one. */
  readonly rank: number | null;
}

/** Every task of the job in the order of roles and indices; ranks count the chief first, then in this order. */
export function places(job: Job): Place[] {
  const all = job.roles.flatMap((role) => Array.from({ length: role.instances }, (_, index) => ({ role, index })));
  const ranked = all.filter(({ role }) => role.ranked);
  const chief = ranked.find(isChief);
  const order = chief === undefined ? ranked : [chief, ...ranked.filter((place) => place !== chief)];
  const rankOf = new Map(order.map((place, rank) => [place, rank]));
  return all.map((place) => ({ ...place, rank: rankOf.get(place) ?? null }));
}

export function isChief(place: { readonly role: Role; readonly index: number }): boolean {
  return place.role.chief && place.index === 0;
}
