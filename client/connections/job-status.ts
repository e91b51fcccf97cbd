import * as z from 'zod';
import type { JobStatus, OrphanedContainer } from '../../conf/status/status.ts';
import { ROLE_NAME } from '../../conf/values/role-name.ts';
import { parseJson } from '../../platform/json-value.ts';

// Role names are checked, because terminals and shell completion use them without escaping.
const role = z.string().regex(ROLE_NAME);
const task = z.object({ role, index: z.int(), state: z.string() });
const orphan = z.object({
  role,
  index: z.int().nullable(),
  containerId: z.string(),
  node: z.string(),
  attached: z.boolean(),
  mayRunForMs: z.number(),
});

const status = z.object({
  applicationId: z.string(),
  state: z.string(),
  message: z.string(),
  // Older ApplicationMasters do not report these fields.
  waitingMs: z.number().nullable().catch(null),
  predecessorsEndInMs: z.number().nullable().catch(null),
  failedTask: z.object({ role, index: z.int() }).nullable().catch(null),
  generations: z.number(),
  metrics: z.record(z.string(), z.unknown()),
  notices: z.array(z.unknown()),
  tasks: z.array(task),
  // Older ApplicationMasters do not report orphaned containers.
  orphanedContainers: z
    .array(z.unknown())
    .catch([])
    .transform((each) => each.filter((one): one is OrphanedContainer => orphan.safeParse(one).success)),
});

/**
 * Parses a job status from an ApplicationMaster or from final.json. Returns null for any other text, such as a proxy's error page or
 * another job's status.
 */
export function parseJobStatus(text: string, applicationId: string): JobStatus | null {
  return checkedStatus(parseJson(text), applicationId);
}

/** Returns the parsed JSON as a job status, or null if it is not a valid one. */
export function checkedStatus(value: unknown, applicationId: string): JobStatus | null {
  const found = status.safeParse(value).data;
  if (found?.applicationId !== applicationId) {
    return null;
  }
  const { waitingMs, predecessorsEndInMs, failedTask, orphanedContainers } = found;
  return { ...(value as JobStatus), waitingMs, predecessorsEndInMs, failedTask, orphanedContainers };
}
