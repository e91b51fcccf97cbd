import type { Job, Role, RoleCondition } from './job.ts';

/** Returns the conditions that apply to a role. The tasks of the gang start together, so the conditions of its roles apply to all of them. */
export function conditionsOf({ roles }: Pick<Job, 'roles'>, role: Role): readonly RoleCondition[] {
  return inGang(role) ? roles.filter(inGang).flatMap(({ after }) => after) : role.after;
}

/** Describes conditions as a clause, such as `prepare has succeeded and db is running`. */
export function describeConditions(conditions: readonly RoleCondition[]): string {
  return conditions.map(({ role, state }) => `${role} ${state === 'running' ? 'is running' : 'has succeeded'}`).join(' and ');
}

/** Returns true if the tasks of the role start together with the other tasks of the gang. */
export function inGang({ ranked, servesParameters }: Pick<Role, 'ranked' | 'servesParameters'>): boolean {
  return ranked || servesParameters;
}
