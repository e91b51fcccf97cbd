import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'vitest';
import { localPaths } from '../client/files/local-layout.ts';
import { initJob } from '../client/job/new-job.ts';
import type { NewJobFramework } from '../client/job/new-job-programs.ts';
import type { JobStatus } from '../conf/status/status.ts';
import { startCommand } from './command.ts';
import { temporaryFolder } from './harness.ts';

/** Runs the program with fewer steps in the first generation, and then fails. */
const FAILING = `if [ "$TONY_GENERATION" = 1 ]; then sed 's/STEPS = \\([0-9, ]*\\), [0-9]*$/STEPS = \\1, 100/' train.py > short.py; PYTHON short.py; exit 3; fi; exec PYTHON train.py`;

/**
 * Runs the new job that `tony-ts init` writes for a framework: undisturbed, and with a failure after step 100. The second job must resume
 * there, and both must print the same result and keep the same files.
 */
export async function expectNewJobResumes(framework: NewJobFramework, python: string, files: readonly string[]): Promise<void> {
  const folder = await temporaryFolder();
  await initJob(folder, { framework, name: `new-${framework}`, instances: 2, gpus: 0, queue: 'default' });
  const root = path.join(folder, 'root');
  const run = async (command: string): Promise<{ final: JobStatus; output: string; kept: string }> => {
    const words = ['submit', '--local', '--conf', path.join(folder, 'job.yaml'), '--set', `command=${command}`];
    const submitted = startCommand(words, { env: { TONY_LOCAL_DIR: root, HADOOP_CONF_DIR: undefined } });
    const [id] = await submitted.output(/local_\d+_\d+/);
    const { exitCode, stdout, stderr } = await submitted.result;
    expect({ exitCode, text: exitCode === 0 ? '' : stdout + stderr }).toEqual({ exitCode: 0, text: '' });
    const { history, output: kept } = localPaths(root, id);
    const final = JSON.parse(await readFile(path.join(history, 'final.json'), 'utf8')) as JobStatus;
    // The first generation of the failing job prints its result as well.
    return { final, kept, output: [...stdout.matchAll(/(?:accuracy: [\d.]+ %|y = .*)$/gm)].at(-1)?.[0] ?? stdout };
  };
  const undisturbed = await run(`exec ${python} train.py`);
  const resumed = await run(FAILING.replaceAll('PYTHON', python));
  expect(undisturbed.final).toMatchObject({ state: 'succeeded', generations: 1 });
  expect(resumed.final).toMatchObject({ state: 'succeeded', generations: 2, checkpointStep: undisturbed.final.checkpointStep });
  expect(resumed.output).toBe(undisturbed.output);
  for (const { kept } of [undisturbed, resumed]) {
    for (const file of files) {
      expect((await readFile(path.join(kept, file))).length).toBeGreaterThan(0);
    }
  }
}
