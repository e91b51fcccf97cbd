import type { Job, Role, RoleCondition } from './job.ts';

/**
 * Returns the conditions that apply to a role. The conditions of every role in the gang apply to the whole gang, because the gang's tasks
 * start together.
 */
export function conditionsOf({ roles }: Pick<Job, 'roles'>, role: Role): readonly RoleCondition[] {
  return inGang(role) ? roles.filter(inGang).flatMap(({ after }) => after) : role.after;
}

/** Describes conditions, for example `prepare has succeeded and db is running`. */
export function describeConditions(conditions: readonly RoleCondition[]): string {
  return conditions.map(({ role, state }) => `${role} ${state === 'running' ? 'is running' : 'has succeeded'}`).join(' and ');
}

/** Returns true if the role belongs to the gang, whose tasks start together. */
export function inGang({ kind, servesParameters }: Pick<Role, 'kind' | 'servesParameters'>): boolean {
  return kind === 'gang' || servesParameters;
}
