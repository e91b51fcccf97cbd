import { copyFile, cp } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'vitest';
import type { JobStatus } from '../../conf/status/status.ts';
import { ROOT } from '../command.ts';
import { temporaryFolder } from '../harness.ts';
import type { SubmittedJob } from './submitted-job.ts';

/** Jobs with two processes in each of two tasks. The processes use Debian's Python. */

export const PYTHON = '/usr/bin/python3';
const PROGRAMS = path.join(ROOT, 'integration-tests', 'programs');

/** Copies an example, with test programs beside it. Returns the path of its job.yaml. */
export async function exampleWith(name: string, programs: readonly string[]): Promise<string> {
  const source = path.join(await temporaryFolder(), name);
  await cp(path.join(ROOT, 'examples', name), source, { recursive: true });
  for (const program of programs) {
    await copyFile(path.join(PROGRAMS, program), path.join(source, program));
  }
  return path.join(source, 'job.yaml');
}

/** Waits until the job blocks after its checkpoint of step 50. Kills one of the two processes of task 1, and waits for the job's end. */
export async function endAfterKill(job: SubmittedJob): Promise<JobStatus> {
  const status = await job.reaches(({ checkpointStep }) => checkpointStep === 50);
  const processes = await job.processes(status, 'worker', 1, `${PYTHON} held.py`);
  expect(processes).toHaveLength(2);
  process.kill(processes[1] as number, 'SIGKILL');
  return await job.ended();
}

/** Parses the JSON object in the output whose first key is `key`. */
export function resultIn(text: string, key: string): Readonly<Record<string, unknown>> {
  return JSON.parse(new RegExp(`\\{"${key}".*\\}`).exec(text)?.[0] ?? 'null');
}
