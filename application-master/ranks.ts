import type { Job, Role } from '../conf/job.ts';

export interface Place {
  readonly role: Role;
  readonly index: number;
}

/** Every task that the job may ever have, in the order of roles and indices. */
export function places(job: Job): Place[] {
  return job.roles.flatMap((role) => Array.from({ length: role.maxInstances }, (_, index) => ({ role, index })));
}

/** Those of a generation who have a rank, in the order of their ranks: the chief first, the others as they stand. */
export function inRankOrder<Ranked extends Place>(members: readonly Ranked[]): Ranked[] {
  const ranked = members.filter(({ role }) => role.ranked);
  return [...ranked.filter(isChief), ...ranked.filter((place) => !isChief(place))];
}

export function isChief(place: Place): boolean {
  return place.role.chief && place.index === 0;
}
