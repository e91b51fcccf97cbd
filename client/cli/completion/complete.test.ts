import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { jobStatus } from '../../../conf/status/job-status.fixture.ts';
import { listening } from '../../../hadoop/testing/http-server.ts';
import { localPaths } from '../../files/local-layout.ts';
import { COMMAND_LINE } from '../command-line.ts';
import { completionLines } from './complete.ts';

const LOCAL = 'local_1795225023264_0001';
let folder: string;
let onEnd: (() => void)[];

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-complete-'));
  onEnd = [];
  const { history } = localPaths(path.join(folder, 'local'), LOCAL);
  await mkdir(history, { recursive: true });
  const final = jobStatus({ id: LOCAL, name: 'here', state: 'succeeded', finishedAt: 5, tasks: [] });
  await writeFile(path.join(history, 'final.json'), JSON.stringify(final));
  vi.stubEnv('HADOOP_USER_NAME', 'alice');
  vi.stubEnv('TONY_LOCAL_DIR', path.join(folder, 'local'));
  vi.stubEnv('HADOOP_CONF_DIR', folder);
  // Fake timers control when the deadline for the cluster's response passes.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});
afterEach(async () => {
  vi.useRealTimers();
  vi.unstubAllEnvs();
  for (const end of onEnd) {
    end();
  }
  await rm(folder, { recursive: true, force: true });
});

async function cluster(answer: (states: string | null) => readonly object[] | null): Promise<{ readonly asked: number }> {
  const asked = { asked: 0 };
  const server = createServer((request, response) => {
    asked.asked++;
    const app = answer(new URL(request.url ?? '', 'http://x').searchParams.get('states'));
    if (app !== null) {
      response.end(JSON.stringify({ apps: { app } }));
    }
  });
  onEnd.push(() => server.close().closeAllConnections());
  const address = (await listening(server)).replace('http://', '');
  const property = (name: string, value: string) =>
    `<configuration><property><name>${name}</name><value>${value}</value></property></configuration>`;
  await writeFile(path.join(folder, 'core-site.xml'), property('fs.defaultFS', 'hdfs://localhost:1'));
  await writeFile(path.join(folder, 'yarn-site.xml'), property('yarn.resourcemanager.webapp.address', address));
  return asked;
}

const application = { user: 'alice', queue: 'default', startedTime: 1 };
const RUNNING = { ...application, id: 'application_1_0002', name: 'mnist', state: 'RUNNING' };
const ENDED = { ...application, id: 'application_1_0001', name: 'cifar', state: 'FINISHED', finalStatus: 'SUCCEEDED' };
const offered = (...words: string[]) => completionLines(COMMAND_LINE, words);

/** Waits for a condition, for at most 20 s. `vi.waitFor` would advance the fake clock. */
async function until(condition: () => boolean): Promise<void> {
  const deadline = Date.now() + 20_000;
  while (!condition()) {
    // Without a limit, the loop of a failing test would keep the process of the tests alive.
    expect(Date.now()).toBeLessThan(deadline);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

test('offers the jobs of the cluster, newest first, then those of this machine', async () => {
  await cluster((states) => (states === null ? [ENDED, RUNNING] : [RUNNING]));
  const all = ['words', 'application_1_0002\tmnist, running', 'application_1_0001\tcifar, succeeded', `${LOCAL}\there, succeeded`];
  expect(await offered('logs', '')).toEqual(all);
  expect(await offered('kill', '')).toEqual(all.slice(0, 2));
});

test('offers only the jobs of this machine while the cluster does not answer', async () => {
  const questions = await cluster(() => null);
  const lines = offered('logs', '');
  await until(() => questions.asked === 2);
  vi.advanceTimersByTime(450);
  expect(await lines).toEqual(['words', `${LOCAL}\there, succeeded`]);
});

test('offers the running jobs when the cluster takes too long to list all jobs', async () => {
  const questions = await cluster((states) => (states === null ? null : [RUNNING]));
  const lines = offered('logs', '');
  await until(() => questions.asked === 2 && vi.getTimerCount() === 1);
  vi.advanceTimersByTime(450);
  expect(await lines).toEqual(['words', 'application_1_0002\tmnist, running', `${LOCAL}\there, succeeded`]);
});

test('offers nothing, without an error, when no cluster is configured or a word is not a job ID', async () => {
  vi.stubEnv('HADOOP_CONF_DIR', path.join(folder, 'none'));
  vi.stubEnv('TONY_LOCAL_DIR', path.join(folder, 'none'));
  expect(await offered('logs', '')).toEqual(['words']);
  expect(await offered('logs', 'application_1_0001', '')).toEqual(['words']);
  expect(await offered('logs', 'no-job', '')).toEqual(['words']);
  expect(await offered('doctor', '--queue', '')).toEqual(['words']);
});
