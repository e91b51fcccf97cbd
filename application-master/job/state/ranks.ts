import type { Job, Role } from '../../../conf/job.ts';

export interface TaskPlace {
  readonly role: Role;
  readonly index: number;
}

export function places(job: Job): TaskPlace[] {
  return job.roles.flatMap((role) => Array.from({ length: role.maxInstances }, (_, index) => ({ role, index })));
}

/** Returns a generation's ranked tasks in rank order: first the chief, then the others in the given order. */
export function inRankOrder<Ranked extends TaskPlace>(members: readonly Ranked[]): Ranked[] {
  const ranked = members.filter(({ role }) => role.kind === 'gang');
  return [...ranked.filter(isChief), ...ranked.filter((place) => !isChief(place))];
}

export function isChief(place: TaskPlace): boolean {
  return place.role.chief && place.index === 0;
}
