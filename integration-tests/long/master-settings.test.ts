import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { JobStatus } from '../../conf/status/status.ts';
import { noneLeft, temporaryFolder, USER, until, useOwnCluster } from '../harness.ts';

/** The settings in `docker` and `master` of job.yaml, as YARN receives them. */

const cluster = useOwnCluster('plain');

interface Running {
  readonly id: string;
  /** Lets the job's programs end. */
  readonly end: () => Promise<void>;
}

/** Submits a job whose programs run until `end` is called. */
async function start(lines: readonly string[]): Promise<Running> {
  const folder = await temporaryFolder();
  const [file, go] = [path.join(folder, 'job.yaml'), path.join(folder, 'go')];
  const command = `command: 'until [ -e ${go} ]; do sleep 0.1; done'`;
  await writeFile(file, `${['name: settings', 'framework: none', 'runtime: system', 'source: null', command, ...lines].join('\n')}\n`);
  const { stdout, stderr, exitCode } = await cluster.run(['submit', '--conf', file, '--detach']);
  expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: 0 });
  const id = /application_\d+_\d+/.exec(stdout)?.[0] ?? '';
  onTestFinished(async () => {
    await cluster.run(['kill', id]);
    await noneLeft(cluster, id);
  });
  await cluster.reached(id, ({ tasks }) => tasks.every(({ state }) => state === 'running'));
  return { id, end: () => writeFile(go, '') };
}

/** Returns the job's ApplicationMaster and executors, which are the Node.js processes of its containers. */
async function processesOf(id: string): Promise<{ pid: number; containerId: string; isMaster: boolean }[]> {
  const all = (await cluster.containers(id)).filter(({ command }) => /^\S*node\b/.test(command));
  return all.map(({ pid, containerId, command }) => {
    return { pid, containerId: containerId ?? '', isMaster: command.includes('application-master.mjs') };
  });
}

async function pidOfMaster(id: string): Promise<number> {
  const masters = (await processesOf(id)).filter(({ isMaster }) => isMaster);
  expect(masters).toHaveLength(1);
  return masters[0]?.pid ?? 0;
}

/** Kills the ApplicationMaster, and waits until the attempt with this number runs the job. Returns when the old one was killed (ms). */
async function replaceMaster(id: string, attempt: number): Promise<number> {
  process.kill(await pidOfMaster(id), 'SIGKILL');
  const killedAt = performance.now();
  await cluster.reached(id, ({ masterAttempt, tasks }) => masterAttempt === attempt && tasks.every(({ state }) => state === 'running'));
  return killedAt;
}

/** Returns the environment that YARN gives to a container: the lines of the NodeManager's launch_container.sh. */
async function launchEnvironment(id: string, containerId: string): Promise<Record<string, string>> {
  const scripts = ['nodemanager1', 'nodemanager2'].map((node) =>
    path.join(cluster.state, 'data', node, 'local/nmPrivate', id, containerId, 'launch_container.sh'),
  );
  const texts = await Promise.all(scripts.map((script) => readFile(script, 'utf8').catch(() => '')));
  const found = texts.join('\n').matchAll(/^export (\w+)=(?:"(.*)"|\$\{\1:-"(.*)"\})$/gm);
  return Object.fromEntries([...found].map(([, name = '', value, fallback = '']) => [name, value ?? fallback]));
}

/** Returns the variables of YARN's container runtimes. */
function runtimeOf(environment: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => name.startsWith('YARN_CONTAINER_RUNTIME_')));
}

async function processEnvironment(pid: number): Promise<Record<string, string>> {
  const entries = (await readFile(`/proc/${pid}/environ`, 'utf8')).split('\0').filter((line) => line.includes('='));
  return Object.fromEntries(entries.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]));
}

// The variables are those of Hadoop's documentation, "Launching Applications Using Docker Containers".
test("each role and the ApplicationMaster have their own variables of YARN's Docker runtime", async () => {
  const { id, end } = await start([
    'master: {docker: {image: "ml/master:2", mounts: ["/etc/ssl:/etc/ssl:ro"], network: bridge}}',
    'roles:',
    '  worker: {instances: 2, resources: {memory: 256m}, docker: {image: "ml/train:1", mounts: ["/data:/data:ro", "/tmp:/scratch:rw"], network: host}}',
    '  reader: {instances: 1, resources: {memory: 256m}, docker: {image: "registry.example.org/ml/reader:latest"}}',
    '  bare: {instances: 1, resources: {memory: 256m}}',
  ]);
  const expected: Record<string, Record<string, string>> = {
    master: {
      YARN_CONTAINER_RUNTIME_TYPE: 'docker',
      YARN_CONTAINER_RUNTIME_DOCKER_IMAGE: 'ml/master:2',
      YARN_CONTAINER_RUNTIME_DOCKER_MOUNTS: '/etc/ssl:/etc/ssl:ro',
      YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_NETWORK: 'bridge',
    },
    worker: {
      YARN_CONTAINER_RUNTIME_TYPE: 'docker',
      YARN_CONTAINER_RUNTIME_DOCKER_IMAGE: 'ml/train:1',
      YARN_CONTAINER_RUNTIME_DOCKER_MOUNTS: '/data:/data:ro,/tmp:/scratch:rw',
      YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_NETWORK: 'host',
    },
    reader: { YARN_CONTAINER_RUNTIME_TYPE: 'docker', YARN_CONTAINER_RUNTIME_DOCKER_IMAGE: 'registry.example.org/ml/reader:latest' },
    bare: {},
  };
  const { tasks } = await cluster.jobStatus(id);
  const processes = await processesOf(id);
  expect(processes).toHaveLength(5);
  for (const { pid, containerId, isMaster } of processes) {
    const role = isMaster ? 'master' : (tasks.find((task) => task.containerId === containerId)?.role ?? '');
    const environment = await launchEnvironment(id, containerId);
    expect(environment, role).toMatchObject({ CONTAINER_ID: containerId });
    expect(runtimeOf(environment), role).toEqual(expected[role]);
    expect(runtimeOf(await processEnvironment(pid)), role).toEqual(expected[role]);
  }
  await end();
  expect(await cluster.ended(id)).toMatchObject({ finalStatus: 'SUCCEEDED' });
});

test('master.env reaches only the ApplicationMaster, and master.logLevel selects the lines of its log', async () => {
  const setting = `for the master, with $dollar and "quotes"`;
  const levels = async (level: string): Promise<Set<string>> => {
    const { id, end } = await start([
      `master: {env: {SETTING: '${setting}'}, logLevel: ${level}}`,
      'roles: {worker: {instances: 1, resources: {memory: 256m}}}',
    ]);
    const processes = await processesOf(id);
    expect(processes).toHaveLength(2);
    for (const { pid, isMaster } of processes) {
      expect((await processEnvironment(pid)).SETTING).toBe(isMaster ? setting : undefined);
    }
    await end();
    expect(await cluster.ended(id)).toMatchObject({ finalStatus: 'SUCCEEDED' });
    const logs = await until(
      async () => {
        const read = await cluster.run(['logs', id, 'master']);
        return read.exitCode === 0 && read;
      },
      { describe: 'the logs of the ended job' },
    );
    return new Set([...logs.stdout.matchAll(/"level":"(\w+)"/g)].map(([, each = '']) => each));
  };
  const all = await levels('debug');
  expect([all.has('debug'), all.has('info')]).toEqual([true, true]);
  const few = await levels('error');
  expect([...few].filter((level) => level !== 'error')).toEqual([]);
});

test('an ApplicationMaster that dies more often than YARN allows, but never twice within master.failureWindow, is replaced', async () => {
  const windowMs = 10_000;
  const { id, end } = await start([
    `master: {failureWindow: ${windowMs / 1000}s}`,
    'roles: {worker: {instances: 2, resources: {memory: 256m}}}',
  ]);
  // YARN allows two attempts in total without a window.
  for (const attempt of [2, 3, 4]) {
    const killedAt = await replaceMaster(id, attempt);
    // YARN's window starts when it has noticed the exit, before the next attempt registers.
    const registeredAt = performance.now();
    expect(registeredAt).toBeGreaterThan(killedAt);
    await until(() => performance.now() - registeredAt > windowMs, { describe: 'the window has passed' });
  }
  await end();
  expect(await cluster.ended(id)).toMatchObject({ state: 'FINISHED', finalStatus: 'SUCCEEDED' });
  const final = JSON.parse((await cluster.hdfsRead(`/user/${USER}/.tony-ts/history/${id}/final.json`)).toString()) as JobStatus;
  expect(final).toMatchObject({ masterAttempt: 4, generations: 1 });
  expect(final.tasks.map(({ attempts, failures }) => [attempts, failures])).toEqual([
    [1, 0],
    [1, 0],
  ]);
});

test('without a window, and with two deaths within the window, the job fails', async () => {
  for (const master of ['{}', '{failureWindow: 1h}']) {
    const { id } = await start([`master: ${master}`, 'roles: {worker: {instances: 1, resources: {memory: 256m}}}']);
    await replaceMaster(id, 2);
    process.kill(await pidOfMaster(id), 'SIGKILL');
    expect(await cluster.ended(id)).toMatchObject({ state: 'FAILED', finalStatus: 'FAILED' });
    await noneLeft(cluster, id);
  }
});
