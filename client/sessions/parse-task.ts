import { TonyError } from '../../platform/errors.ts';

/** Parses `ROLE:INDEX`. @throws TonyError USAGE */
export function parseTask(text: string): { readonly role: string; readonly index: number } {
  const [, role = '', index = ''] = /^([^:]+):(\d{1,6})$/.exec(text) ?? [];
  if (role === '') {
    throw new TonyError('USAGE', `"${text}" is not a task.`, { hint: 'Name the task by its role and its index, such as worker:0.' });
  }
  return { role, index: Number(index) };
}
