import type { Job } from '../../conf/job.ts';

/** Returns a note if the job sets PATH. The shell then finds commands only in the folders on the new PATH. */
export function environmentNotes({ env, roles }: Pick<Job, 'env' | 'roles'>): string[] {
  const places = [
    ...(Object.hasOwn(env, 'PATH') ? ['env'] : []),
    ...roles.filter((role) => Object.hasOwn(role.env, 'PATH')).map(({ name }) => `roles.${name}.env`),
  ];
  if (places.length === 0) {
    return [];
  }
  return [
    `${places.join(' and ')} ${places.length === 1 ? 'replaces' : 'replace'} the whole PATH. The shell finds commands such as node only in the folders on the new PATH.`,
  ];
}
