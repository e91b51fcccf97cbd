import { readFileSync } from 'node:fs';
import * as z from 'zod';
import { WIRE_SECURITY } from '../../conf/job.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { TASK_ENVIRONMENT, type TaskContext } from './task-context.ts';

const wireSecurity = z.enum(WIRE_SECURITY);
const address = { host: z.string().min(1), port: z.number().int().min(1).max(65_535) };

const schema = z.object({
  version: z.literal(1),
  applicationId: z.string(),
  jobName: z.string(),
  role: z.string(),
  index: z.number().int().nonnegative(),
  roleSize: z.number().int().positive(),
  rank: z.number().int().nonnegative().nullable(),
  worldSize: z.number().int().nonnegative(),
  generation: z.number().int().nonnegative(),
  members: z.array(
    z.object({ role: z.string(), index: z.number().int().nonnegative(), rank: z.number().int().nonnegative().nullable(), ...address }),
  ),
  listener: z.object({ fd: z.number().int().nonnegative(), ...address }).nullable(),
  ringKey: z.string(),
  strategy: z.discriminatedUnion('type', [
    z.object({ type: z.literal('all-reduce'), wire: z.enum(['float32', 'float16']), wireSecurity }),
    z.object({ type: z.literal('parameter-server'), staleness: z.number().int().nonnegative().nullable(), wireSecurity }),
  ]),
  parameterServers: z.array(z.object(address)),
  checkpoint: z.object({ dir: z.string(), everySteps: z.number().int().nonnegative(), keep: z.number().int().positive() }),
  summaryDir: z.string(),
  outputDir: z.string(),
  data: z.record(z.string(), z.string()),
  user: z.string(),
  hadoop: z.record(z.string(), z.string()).nullable(),
  s3: z.string().nullable(),
  reportFile: z.string(),
  checkpointOrder: z.string().nullable(),
  services: z.string().nullable(),
  memoryMb: z.number().int().positive().nullable(),
});

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
  const parsed = schema.safeParse(document);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new TonyError('TASK_FILE_INVALID', `${file}: ${issue?.path.join('.')}: ${issue?.message}`);
  }
  return parsed.data;
}
