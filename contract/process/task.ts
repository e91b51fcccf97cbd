import { readFileSync } from 'node:fs';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { type TaskContext, taskSchema } from './task-context.ts';
import { TASK_ENVIRONMENT } from './task-environment.ts';

/**
 * Reads the task description from the file in TONY_TASK_FILE. Returns null for a standalone program.
 * @throws TonyError TASK_FILE_INVALID.
 */
export function readTask(environment: NodeJS.ProcessEnv = process.env): TaskContext | null {
  const file = environment[TASK_ENVIRONMENT.taskFile];
  if (file === undefined || file === '') {
    return null;
  }
  let document: unknown;
  try {
    document = JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    throw new TonyError('TASK_FILE_INVALID', `${TASK_ENVIRONMENT.taskFile} names ${file}, which cannot be read: ${messageOf(error)}`);
  }
  const parsed = taskSchema.safeParse(document);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new TonyError('TASK_FILE_INVALID', `${file}: ${issue?.path.join('.')}: ${issue?.message}`);
  }
  return parsed.data;
}
