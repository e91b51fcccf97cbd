import { cp, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import type { JobStatus } from '../conf/status/status.ts';
import { ROOT } from './command.ts';
import { isAlive } from './executor/test-master.ts';
import { noneLeft, temporaryFolder, USER, until, useCluster } from './harness.ts';
import { smallMnist } from './small-mnist.ts';

/** Runs examples/mnist-ps: two workers and two parameter servers run the script of examples/mnist. */

const cluster = useCluster();

/** Time limit in ms, long enough for one-minute trainings on a slow machine. */
const accuracyIn = (text: string) => Number(/^(?:.*\| *)?test accuracy: (\d+\.\d\d) %$/m.exec(text)?.[1]);

interface Training {
  readonly id: string;
  status(): Promise<JobStatus>;
  pid(task: string, start: number): Promise<number>;
}

/** Copies the example for YARN. In the copy, each program appends its pid to a file of its task. */
async function train(): Promise<Training> {
  const folder = await temporaryFolder();
  await cp(path.join(ROOT, 'examples'), path.join(folder, 'examples'), { recursive: true });
  const script = path.join(folder, 'examples', 'mnist', 'train.ts');
  const telling = `import { appendFileSync } from 'node:fs';
appendFileSync(\`${folder}/\${process.env.TONY_ROLE}-\${process.env.TONY_INDEX}\`, \`\${process.pid}\\n\`);\n`;
  await writeFile(script, telling + (await readFile(script, 'utf8')));
  const settings = [`data.mnist=${await smallMnist(48_000)}`, 'checkpoint.everySteps=100', 'heartbeat.interval=500ms'];
  const words = ['submit', '--conf', path.join(folder, 'examples', 'mnist-ps', 'job.yaml'), '--detach'];
  const { stdout, stderr, exitCode } = await cluster.run([...words, ...settings.flatMap((each) => ['--set', each])]);
  expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: 0 });
  const id = /application_\d+_\d+/.exec(stdout)?.[0] ?? '';
  const status = () => cluster.jobStatus(id);
  return {
    ...{ id, status },
    pid: (task, start) =>
      until(async () => Number((await readFile(path.join(folder, task), 'utf8')).split('\n')[start - 1]), {
        describe: async () => ({ awaited: `start ${start} of ${task}`, status: await status().catch(String) }),
      }),
  };
}

async function stepBeyond(training: Training, what: 'step' | 'checkpointStep', step: number): Promise<number> {
  const status = await cluster.reached(training.id, (each) => each[what] > step);
  return status[what];
}

test('a killed worker restarts alone, a killed server restarts all tasks, and both workers still exceed 97 % accuracy before the servers stop', async () => {
  const training = await train();
  await stepBeyond(training, 'step', 0);
  const [chief, server] = [await training.pid('worker-0', 1), await training.pid('ps-0', 1)];
  process.kill(await training.pid('worker-1', 1), 'SIGKILL');
  const second = await training.pid('worker-1', 2);
  expect([chief, server].filter(isAlive)).toEqual([chief, server]);
  expect((await training.status()).generations).toBe(1);

  const known = await stepBeyond(training, 'checkpointStep', 0);
  process.kill(await training.pid('ps-1', 1), 'SIGKILL');
  await training.pid('worker-0', 2);
  await training.pid('ps-1', 2);
  expect([chief, server, second].filter(isAlive)).toEqual([]);
  const { notices } = await cluster.reached(training.id, (status) => status.notices.some((notice) => notice.includes('resumes from')));
  const [, from] = notices.map((notice) => /resumes from .*, step (\d+)/.exec(notice)).find((match) => match !== null) ?? [];
  expect(Number(from)).toBeGreaterThanOrEqual(known);

  await cluster.ended(training.id);
  await noneLeft(cluster, training.id);
  const final = JSON.parse((await cluster.hdfsRead(`/user/${USER}/.tony-ts/history/${training.id}/final.json`)).toString()) as JobStatus;
  expect(final).toMatchObject({ state: 'succeeded', generations: 2, step: 750, checkpointStep: 750 });
  expect(final.tasks.map(({ role, index, state }) => `${role}:${index} ${state}`)).toEqual([
    'worker:0 succeeded',
    'worker:1 succeeded',
    'ps:0 stopped',
    'ps:1 stopped',
  ]);
  const accuracyOf = (index: number) => {
    const logs = () => cluster.run(['logs', training.id, `worker:${index}`]);
    return until(async () => accuracyIn((await logs()).stdout), { describe: logs });
  };
  const accuracy = await accuracyOf(0);
  expect(accuracy).toBeGreaterThan(97);
  expect(await accuracyOf(1)).toBe(accuracy);
});
