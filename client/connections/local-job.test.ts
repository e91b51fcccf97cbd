import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest';
import { apiObject } from '../../conf/status/api-object.ts';
import { jobInfo, unreportedJob } from '../../conf/status/job-info.ts';
import { jobStatus } from '../../conf/status/job-status.fixture.ts';
import { isLocalId, localPaths } from '../files/local-layout.ts';
import { LocalJob } from './local-job.ts';
import { killJob } from './operations/kill-job.ts';

const ID = 'local_1795225023264_0001';
let root = '';
beforeEach(async () => {
  root = await mkdtemp(path.join(tmpdir(), 'tony-local-'));
});
afterEach(() => rm(root, { recursive: true, force: true }));

const running = jobStatus({ id: ID, tasks: [] });

async function place(file: string, content: string): Promise<void> {
  await mkdir(path.dirname(file), { recursive: true });
  await writeFile(`${file}.new`, content);
  await rename(`${file}.new`, file);
}

async function master(script: string): Promise<number> {
  const pid = await masterProcess(script);
  await place(path.join(localPaths(root, ID).job, 'job.json'), '{}');
  await place(localPaths(root, ID).masterPid, String(pid));
  return pid;
}

async function masterProcess(script: string): Promise<number> {
  const paths = localPaths(root, ID);
  await mkdir(paths.job, { recursive: true });
  const child = spawn(process.execPath, ['-e', `${script}; console.log('up')`], {
    env: {
      ...process.env,
      CONTAINER_ID: paths.masterContainer(1),
      FINAL: path.join(paths.history, 'final.json'),
      ADDRESS: paths.masterAddress,
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  await once(child.stdout, 'data');
  return child.pid ?? 0;
}

test('observe rejects an unknown local job', async () => {
  await expect(new LocalJob(ID, root).observe()).rejects.toMatchObject({ code: 'JOB_NOT_FOUND', exitCode: 2 });
  expect(isLocalId(ID)).toBe(true);
  expect(isLocalId('local_1_0001/../..')).toBe(false);
});

test('observe reports the last recorded state if the ApplicationMaster runs but does not answer', async () => {
  await master('setInterval(() => {}, 1000)');
  const task = { role: 'worker', index: 0, attempt: 1, containerId: 'container_1795225023264_0001_01_000002' };
  const entries = [
    { at: 1, type: 'container-allocated', ...task, node: 'localhost' },
    { at: 2, type: 'program-started', ...task, generation: 1 },
  ];
  await place(path.join(localPaths(root, ID).history, 'events-1.jsonl'), entries.map((entry) => `${JSON.stringify(entry)}\n`).join(''));
  const { state, tasks } = await new LocalJob(ID, root).observe();
  expect([state, tasks.map((each) => each.state)]).toEqual(['running', ['running']]);
});

test('observe reports `starting` before the ApplicationMaster answers, and its status with the right token', async () => {
  await master('setInterval(() => undefined, 1000)');
  const job = new LocalJob(ID, root);
  expect(await job.observe()).toEqual(unreportedJob({ id: ID, state: 'starting' }));
  const server = createServer((request, response) => {
    response.statusCode = request.headers.authorization === 'Bearer secret' && request.url === '/tony/api/v1/job' ? 200 : 403;
    response.end(JSON.stringify(apiObject('Job', jobInfo(running))));
  }).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  const http = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await place(localPaths(root, ID).masterAddress, JSON.stringify({ http, token: 'wrong' }));
  expect((await job.observe()).tasksTotal).toBeNull();
  await place(localPaths(root, ID).masterAddress, JSON.stringify({ http, token: 'secret' }));
  expect(await job.observe()).toEqual(jobInfo(running));
});

test('observe reports a dead ApplicationMaster as failed with its last output', async () => {
  process.kill(await master('setInterval(() => undefined, 1000)'), 'SIGKILL');
  const paths = localPaths(root, ID);
  await place(path.join(paths.logs(paths.masterContainer(1)), 'stderr'), 'Error: boom\n');
  const job = new LocalJob(ID, root);
  await expect
    .poll(async () => job.observe())
    .toMatchObject({
      state: 'failed',
      message: `The ApplicationMaster exited before the job ended; its last output:\nError: boom\nSee tony-ts logs ${ID} master.`,
    });
});

test('observe waits for a killed ApplicationMaster while the process that restarts it is alive', async () => {
  const paths = localPaths(root, ID);
  await place(path.join(paths.job, 'job.json'), '{}');
  const { pid: dead } = spawnSync('true');
  const another = await masterProcess('setInterval(() => undefined, 1000)');
  await place(paths.masterPid, `${dead} ${process.pid}`);
  const look = new LocalJob(ID, root).observe();
  // Waits longer than `observe` waits for an ApplicationMaster to start.
  expect(await Promise.race([look, delay(1_500, 'waits')])).toBe('waits');
  await place(paths.masterPid, String(another));
  expect(await look).toMatchObject({ state: 'starting' });
});

test('observe does not mistake another process with a reused process ID for the ApplicationMaster', async () => {
  await place(path.join(localPaths(root, ID).job, 'job.json'), '{}');
  await place(localPaths(root, ID).masterPid, String(process.pid));
  expect((await new LocalJob(ID, root).observe()).state).toBe('failed');
});

test('observe takes the result from final.json, and killJob does not kill an ended job', async () => {
  await place(
    path.join(localPaths(root, ID).history, 'final.json'),
    JSON.stringify({ ...running, state: 'failed', message: 'worker:0 exited with 3.', finishedAt: 2 }),
  );
  const job = new LocalJob(ID, root);
  expect(await job.observe()).toMatchObject({ state: 'failed', message: 'worker:0 exited with 3.' });
  expect(await killJob(job)).toMatchObject({ killed: false });
});

test('killJob signals the ApplicationMaster as soon as it listens, and waits for the end', async () => {
  const final = JSON.stringify({ ...running, state: 'killed', message: 'killed by SIGTERM', finishedAt: 2 });
  await mkdir(localPaths(root, ID).history, { recursive: true });
  await master(
    `const { writeFileSync } = require('fs');
    setTimeout(() => {
      process.on('SIGTERM', () => { writeFileSync(process.env.FINAL, ${JSON.stringify(final)}); process.exit(1); });
      writeFileSync(process.env.ADDRESS, JSON.stringify({ http: 'http://127.0.0.1:1', token: 'x', pid: process.pid }));
    }, 300);
    setInterval(() => undefined, 1000)`,
  );
  expect(await killJob(new LocalJob(ID, root))).toMatchObject({ killed: true });
});

test('logs lists every container that a task had, oldest first', async () => {
  const paths = localPaths(root, ID);
  const container = (number: number): string => `container_1795225023264_0001_01_00000${number}`;
  await place(path.join(paths.job, 'job.json'), '{}');
  const events = [2, 3].map((number) =>
    JSON.stringify({ at: 1, type: 'launched', role: 'worker', index: 0, containerId: container(number) }),
  );
  await place(path.join(paths.history, 'events-1.jsonl'), `${events.join('\n')}\n{"at":`);
  for (const number of [1, 2, 3]) {
    await place(path.join(paths.logs(container(number)), 'stdout'), `of ${number}\n`);
  }
  const sources = await new LocalJob(ID, root).logs();
  expect(sources.map(({ task, containerId }) => [task, containerId])).toEqual([
    ['master', container(1)],
    ['worker:0', container(2)],
    ['worker:0', container(3)],
  ]);
  expect(Buffer.from((await sources[2]?.read('stdout', { offset: 3 }))?.bytes ?? []).toString()).toBe('3\n');
  expect(Buffer.from((await sources[2]?.read('stdout', { tail: 2 }))?.bytes ?? []).toString()).toBe('3\n');
  expect(await sources[2]?.read('stderr', { offset: 0 })).toBeNull();
});
