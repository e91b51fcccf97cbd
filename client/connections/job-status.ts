import type { JobStatus, OrphanedContainer } from '../../conf/status/status.ts';
import { ROLE_NAME } from '../../conf/values/role-name.ts';
import { isRecord } from '../../platform/is-record.ts';
import { parseJson } from '../../platform/json-value.ts';

/**
 * Parses a job status from an ApplicationMaster or from final.json. Returns null for any other text, such as a proxy's error page or
 * another job's status.
 */
export function parseJobStatus(text: string, applicationId: string): JobStatus | null {
  return checkedStatus(parseJson(text), applicationId);
}

/** Returns the parsed JSON as a job status, or null if it is not a valid one. */
export function checkedStatus(value: unknown, applicationId: string): JobStatus | null {
  if (!isRecord(value) || value.applicationId !== applicationId) {
    return null;
  }
  const whole =
    typeof value.state === 'string' &&
    typeof value.message === 'string' &&
    typeof value.generations === 'number' &&
    isRecord(value.metrics) &&
    Array.isArray(value.notices) &&
    Array.isArray(value.tasks) &&
    value.tasks.every(isTask);
  if (!whole) {
    return null;
  }
  const { orphanedContainers } = value;
  // Older ApplicationMasters do not report orphaned containers.
  const orphans = Array.isArray(orphanedContainers) ? orphanedContainers.filter(isOrphan) : [];
  return { ...value, orphanedContainers: orphans } as unknown as JobStatus;
}

function isOrphan(value: unknown): value is OrphanedContainer {
  return (
    isRecord(value) &&
    typeof value.role === 'string' &&
    ROLE_NAME.test(value.role) &&
    (value.index === null || Number.isInteger(value.index)) &&
    typeof value.containerId === 'string' &&
    typeof value.node === 'string' &&
    typeof value.attached === 'boolean' &&
    typeof value.mayRunForMs === 'number'
  );
}

/** Returns true if the task is valid. Role names are also checked, because terminals and shell completion use them without escaping. */
function isTask(task: unknown): boolean {
  return (
    isRecord(task) &&
    typeof task.role === 'string' &&
    ROLE_NAME.test(task.role) &&
    Number.isInteger(task.index) &&
    typeof task.state === 'string'
  );
}
