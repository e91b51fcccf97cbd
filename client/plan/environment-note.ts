import type { Job } from '../../conf/job.ts';

/** Notes for jobs that replace PATH, by which commands are found. */
export function environmentNotes({ env, roles }: Pick<Job, 'env' | 'roles'>): string[] {
  const places = [
    ...(Object.hasOwn(env, 'PATH') ? ['env'] : []),
    ...roles.filter((role) => Object.hasOwn(role.env, 'PATH')).map(({ name }) => `roles.${name}.env`),
  ];
  if (places.length === 0) {
    return [];
  }
  return [`${places.join(' and ')} replaces PATH completely: commands such as node are found only in the folders that it lists.`];
}
