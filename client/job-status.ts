import { isRecord } from '../conf/is-record.ts';
import { ROLE_NAME } from '../conf/role-name.ts';
import type { JobStatus } from '../conf/status.ts';

/** The status that an ApplicationMaster answered or left in final.json; null when the text is none (a proxy's page, another job's). */
export function parseJobStatus(text: string, applicationId: string): JobStatus | null {
  return checkedStatus(parse(text), applicationId);
}

/** The same of what has been parsed. */
export function checkedStatus(value: unknown, applicationId: string): JobStatus | null {
  if (!isRecord(value) || value.applicationId !== applicationId) return null;
  const whole =
    typeof value.state === 'string' &&
    typeof value.message === 'string' &&
    typeof value.generations === 'number' &&
    isRecord(value.metrics) &&
    Array.isArray(value.notices) &&
    Array.isArray(value.tasks) &&
    value.tasks.every(isTask);
  return whole ? (value as unknown as JobStatus) : null;
}

/** Names of roles are shown as they are, and put into commands by completion: only what job.yaml itself takes is one. */
function isTask(task: unknown): boolean {
  return (
    isRecord(task) &&
    typeof task.role === 'string' &&
    ROLE_NAME.test(task.role) &&
    Number.isInteger(task.index) &&
    typeof task.state === 'string'
  );
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
