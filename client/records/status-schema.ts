import * as z from 'zod';
import type { RoleCondition } from '../../conf/job.ts';
import {
  END_STATES,
  type JobStatus,
  type OrphanedContainer,
  TASK_STATES,
  type TaskStatus,
  UNFINISHED_STATES,
  type Usage,
} from '../../conf/status/status.ts';
import { firstFailureSchema, programEndSchema, taskFailureSchema } from '../../conf/status/task-failure.ts';
import { ROLE_NAME } from '../../conf/values/role-name.ts';
import { HOST_AND_PORT } from '../../hadoop/logs/container-logs.ts';
import { isRecord } from '../../platform/is-record.ts';
import { parseJson } from '../../platform/json-value.ts';
import { MAXIMUM_TASKS } from './recorded-tasks.ts';

/** Content of final.json, `damaged` if the file cannot be parsed, or null if the file does not exist. */
export type FinalStatus = JobStatus | 'damaged' | null;

/*
 * Parses the status of a job, which comes from its ApplicationMaster or from final.json. Another user can run any program as an
 * ApplicationMaster, and can edit the files of a history. Therefore, the content is displayed but not trusted: parsing takes linear time
 * and shortens texts and lists, and missing or invalid parts get default values.
 */

/** Maximum length of a status in bytes. */
export const LARGEST_STATUS = 16 << 20;
/** Maximum length of strings, in characters. An ApplicationMaster writes shorter strings. */
export const LONGEST_TEXT = 16_384;
export const LONGEST_NAME = 1_024;
const MAXIMUM_PARTS = 1_000;
/** Accepts an array. Drops elements that are not valid, and all elements after the first `most` ones. */
function list<T>(element: z.ZodType<T>, most: number) {
  return z
    .unknown()
    .optional()
    .transform((value): T[] => {
      const elements: readonly unknown[] = Array.isArray(value) ? value.slice(0, most) : [];
      return elements.flatMap((each) => {
        const parsed = element.safeParse(each);
        return parsed.success ? [parsed.data] : [];
      });
    });
}

const text = z
  .string()
  .catch('')
  .transform((value) => shortened(value, LONGEST_TEXT));
const name = z
  .string()
  .catch('')
  .transform((value) => shortened(value, LONGEST_NAME));
const number = z.number().catch(0);
/** Time in ms since the epoch. An ApplicationMaster sends times in RFC 3339, and stores them as numbers. */
const time = z.union([z.number(), z.iso.datetime().transform((text) => Date.parse(text))]);
const numbers = z
  .unknown()
  .optional()
  .transform((value): Record<string, number> => {
    const parts = isRecord(value) ? Object.entries(value).slice(0, MAXIMUM_PARTS) : [];
    return Object.fromEntries(
      parts.filter((part): part is [string, number] => typeof part[1] === 'number' && part[0].length <= LONGEST_NAME),
    );
  });
const nullableText = z
  .string()
  .nullable()
  .catch(null)
  .transform((value) => value && shortened(value, LONGEST_TEXT));
const texts = list(text, MAXIMUM_PARTS);

const usage: z.ZodType<Usage | null> = z
  .object({
    memoryBytes: number,
    cpuCores: number,
    gpus: list(z.object({ index: number, utilization: number, memoryUsedBytes: number, memoryTotalBytes: number }), MAXIMUM_PARTS),
    stopped: z.boolean().catch(false),
  })
  .nullable()
  .catch(null);

const condition: z.ZodType<RoleCondition> = z.object({ role: z.string().regex(ROLE_NAME), state: z.enum(['running', 'succeeded']) });

const task: z.ZodType<TaskStatus> = z
  .object({
    // Shell completion inserts role names into commands, so keep only valid role names.
    role: z.string().regex(ROLE_NAME),
    index: z.int().nonnegative(),
    state: z.enum(TASK_STATES).catch('stopped'),
    rank: z.int().nonnegative().nullable().catch(null),
    generation: number,
    attempts: number,
    programStarts: z.number().optional().catch(undefined),
    failures: number,
    containerId: nullableText,
    node: nullableText,
    // The job's pages contain links to this address, so keep only a valid address.
    nodeHttp: z.string().regex(HOST_AND_PORT).nullable().catch(null),
    step: number,
    metrics: numbers,
    usage,
    silentMs: z.number().nullable().catch(null),
    exit: programEndSchema.nullable().catch(null),
    failure: taskFailureSchema.nullable().catch(null),
    waitsFor: list(condition, MAXIMUM_PARTS).optional().catch(undefined),
  })
  // Versions that counted only containers have written no `programStarts`.
  .transform(({ programStarts, ...one }) => ({ ...one, programStarts: programStarts ?? one.attempts }));

const orphan: z.ZodType<OrphanedContainer> = z.object({
  role: z.string().regex(ROLE_NAME),
  index: z.int().nonnegative().nullable().catch(null),
  containerId: name,
  node: name,
  attached: z.boolean().catch(false),
  mayRunForMs: number,
});

const outline = {
  id: z.string(),
  name,
  user: name,
  queue: name,
  message: text,
  failedTask: z
    .object({ role: z.string().regex(ROLE_NAME), index: z.int().nonnegative() })
    .nullable()
    .catch(null),
  masterAttempt: number,
  generations: number,
  createdAt: time.nullable().catch(null),
  startedAt: time.catch(0),
  finishedAt: time.nullable().catch(null),
  step: number,
  metrics: numbers,
  checkpointStep: number,
  checkpointUri: text,
  summaryUri: text,
  notices: texts,
  failure: firstFailureSchema.nullable().catch(null),
  tensorboard: z
    .object({ state: z.enum(['off', 'waiting', 'starting', 'ready', 'unavailable']), message: text })
    .catch({ state: 'off', message: '' }),
  elastic: z.object({ role: name, running: number, min: number, max: number }).nullable().catch(null),
};

const final = {
  ...outline,
  state: z.enum(END_STATES),
  waitingMs: z
    .unknown()
    .optional()
    .transform(() => null),
  predecessorsEndInMs: z
    .unknown()
    .optional()
    .transform(() => null),
  master: z
    .unknown()
    .optional()
    .transform(() => null),
};

const live = {
  ...outline,
  state: z.enum([...UNFINISHED_STATES, ...END_STATES]),
  waitingMs: z.number().nullable().catch(null),
  predecessorsEndInMs: z.number().nullable().catch(null),
  progress: z.number().optional().catch(undefined),
  master: z.object({ node: name, memoryBytes: number, cpuCores: number, latenessMs: number }).nullable().catch(null),
};

const containers = { tasks: list(task, MAXIMUM_TASKS), orphanedContainers: list(orphan, MAXIMUM_PARTS) };

const finalWithoutTasks: z.ZodType<Omit<JobStatus, 'tasks' | 'orphanedContainers'>> = z.object(final).transform(withSubmission);
const finalStatus: z.ZodType<JobStatus> = z.object({ ...final, ...containers }).transform(withSubmission);
const liveStatus = z.object({ ...live, ...containers }).transform(withSubmission);

function withSubmission<Status extends { readonly createdAt: number | null; readonly startedAt: number }>(status: Status) {
  return { ...status, createdAt: status.createdAt ?? status.startedAt };
}

/**
 * Parses the status that an ApplicationMaster sends. Returns null for any other value, such as a proxy's error page or another job's status.
 */
export function parseLive(value: unknown, jobId: string): JobStatus | null {
  const { progress, ...status } = liveStatus.safeParse(value).data ?? {};
  return 'id' in status && status.id === jobId ? { ...status, ...(progress === undefined ? {} : { progress }) } : null;
}

/** Parses the text that an ApplicationMaster sends. Returns null for any other text, or if the text is longer than any status. */
export function parseLiveText(text: string, jobId: string): JobStatus | null {
  return text.length <= LARGEST_STATUS ? parseLive(parseJson(text), jobId) : null;
}

/** Parses final.json. Returns `damaged` if the file contains the status of another job. */
export function parseFinal(json: string, jobId: string): FinalStatus {
  return parsedFinal(json, jobId, (value) => finalStatus.safeParse(value).data);
}

/** Like `parseFinal`, but omits the tasks, because validating tasks takes most of the time. */
export function parseFinalWithoutTasks(json: string, jobId: string): FinalStatus {
  return parsedFinal(json, jobId, (value) => {
    const found = finalWithoutTasks.safeParse(value).data;
    return found && { ...found, tasks: [], orphanedContainers: [] };
  });
}

function parsedFinal(json: string, jobId: string, check: (value: unknown) => JobStatus | undefined): FinalStatus {
  if (json === '') {
    return null;
  }
  const parsed = check(parseJson(json));
  return parsed?.id === jobId ? parsed : 'damaged';
}

/** Shortens a string to `most` characters. Copies the result, because a slice would keep the entire original string in memory. */
export function shortened(value: string, most: number): string {
  return value.length <= most ? value : `${Buffer.from(value.slice(0, most - 1)).toString()}…`;
}
