import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { ensureTensorBoard } from '../client/python/ensure-tensorboard.ts';
import type { JobStatus } from '../conf/status/status.ts';
import { encodeFileVersion, encodeScalars } from '../contract/summary/event-file.ts';
import { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { createStorage } from '../storage/create-storage.ts';
import { joinUri } from '../storage/uri.ts';
import { processesWithArgument } from './cluster/processes.mjs';
import { runCommand, startCommand } from './command.ts';
import { temporaryFolder, USER, until, useCluster } from './harness.ts';

/** TensorBoard as a job's sidecar: it runs in its own container, and only the job's ApplicationMaster connects to it. */

beforeAll(async () => {
  await ensureTensorBoard((line) => console.log(line));
});

interface Yaml {
  readonly file: string;
  readonly go: () => Promise<void>;
}

async function jobFile(more = ''): Promise<Yaml> {
  const folder = await temporaryFolder();
  const lines = [
    'name: curves',
    'framework: none',
    'runtime: system',
    'tensorboard: true',
    `command: while [ ! -e ${folder}/go ]; do sleep 0.1; done`,
    'heartbeat: {interval: 200ms, missed: 20}',
    'roles: {worker: {resources: {memory: 256m}}}',
    more,
  ];
  const file = path.join(folder, 'job.yaml');
  await writeFile(file, `${lines.join('\n')}\n`);
  return { file, go: () => writeFile(path.join(folder, 'go'), '') };
}

function events(tag: string, steps: readonly number[]): Buffer {
  return Buffer.concat([
    encodeFileVersion(1_700_000_000),
    ...steps.map((step) => encodeScalars(1_700_000_000 + step, step, [{ tag, value: step }])),
  ]);
}

function pythons(below: string): number[] {
  return processesWithArgument(`{"packages":["${below}`).map(({ pid }) => pid);
}

async function served(status: () => Promise<JobStatus>): Promise<JobStatus> {
  const look = async () => {
    const now = await status();
    return now.tensorboard.state === 'ready' && now;
  };
  return until(look, { describe: status, everyMs: 500 });
}

function containerOf(status: JobStatus): string | null {
  return status.tasks.find(({ role }) => role === 'tensorboard')?.containerId ?? null;
}

async function runs(get: (place: string) => Promise<Response>): Promise<string[]> {
  const answer = await get('data/runs');
  if (!answer.ok) {
    throw new Error(`${answer.status} ${await answer.text()}`);
  }
  return (await answer.json()) as string[];
}

describe('TensorBoard on this machine', () => {
  async function start(more?: string) {
    const { file, go } = await jobFile(more);
    const root = await temporaryFolder();
    const command = startCommand(['submit', '--conf', file, '--local'], { env: { TONY_LOCAL_DIR: root } });
    onTestFinished(() => command.signal('SIGTERM'));
    const [, base = '', token = ''] = await command.output(/^pages: (\S+)\?token=(\w+)$/m);
    const get = (place: string) =>
      fetch(`${base}${place}`, { headers: { authorization: `Bearer ${token}` }, signal: AbortSignal.timeout(60_000) });
    const status = async () => (await (await get('tony/api/v1/job')).json()) as JobStatus;
    return { root, command, get, status, go };
  }

  const containersOf = (root: string) => path.join(root, 'jobs');

  test('serves the curves, restarts after a kill of its process or executor, and ends with the job', async () => {
    const { root, command, get, status, go } = await start();
    const { summaryUri } = await served(status);
    const folder = path.join(new URL(summaryUri).pathname, 'train');
    await mkdir(folder, { recursive: true });
    await writeFile(path.join(folder, 'events.out.tfevents.1'), events('loss', [1, 2, 3]));
    const shown = () => until(async () => (await runs(get)).includes('train'), { describe: () => runs(get) });
    await shown();

    const [python] = pythons(containersOf(root));
    process.kill(python as number, 'SIGKILL');
    await until(() => pythons(containersOf(root)).some((pid) => pid !== python), {
      describe: status,
    });
    const before = containerOf(await served(status));
    await shown();

    const executors = () => processesWithArgument('tony/task-executor.mjs').map(({ pid }) => pid);
    const executor = await until(async () => executorOf(executors(), before), { describe: 'the executor' });
    process.kill(executor, 'SIGKILL');
    await until(async () => containerOf(await status()) !== before, { describe: status });
    await served(status);
    await shown();
    expect(await status()).toMatchObject({ state: 'running', failure: null, generations: 1 });

    await go();
    expect((await command.result).exitCode).toBe(0);
    await until(() => pythons(containersOf(root)).length === 0, { describe: () => pythons(containersOf(root)) });
  });

  test('is unavailable without Python, and the job runs and reports the missing version', async () => {
    const tools = await temporaryFolder();
    await symlink(process.execPath, path.join(tools, 'node'));
    await symlink('/bin/sleep', path.join(tools, 'sleep'));
    const { command, status, go } = await start(`env: {PATH: ${tools}}`);
    await until(async () => (await status()).tensorboard.state === 'unavailable', { describe: status });
    expect((await status()).tensorboard.message).toBe('TensorBoard needs Python 3.9 to 3.13 on the PATH.');
    await go();
    expect((await command.result).exitCode).toBe(0);
  });

  test('is omitted with a message when pip reaches no registry, and the job still runs', async () => {
    const { file, go } = await jobFile();
    await go();
    const cache = await temporaryFolder();
    const env = {
      TONY_LOCAL_DIR: await temporaryFolder(),
      TONY_CACHE_DIR: cache,
      PIP_INDEX_URL: 'http://127.0.0.1:9/simple',
      PIP_RETRIES: '0',
    };
    const { exitCode, stdout, stderr } = await runCommand(['submit', '--conf', file, '--local'], { env });
    expect(`${stdout}${stderr}`).toContain("The job runs without TensorBoard, but the job's page still shows charts.");
    expect(exitCode).toBe(0);
  });
});

/** Finds the process whose environment contains this container ID. */
async function executorOf(pids: readonly number[], containerId: string | null): Promise<number | null> {
  for (const pid of pids) {
    const environment = await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '');
    if (environment.split('\0').includes(`CONTAINER_ID=${containerId}`)) {
      return pid;
    }
  }
  return null;
}

describe('TensorBoard on YARN', () => {
  const cluster = useCluster();

  test('serves growing files on HDFS, and restarts after a kill of its process or executor', async () => {
    const { file, go } = await jobFile();
    const submitted = await cluster.run(['submit', '--conf', file, '--detach']);
    const id = /application_\d+_\d+/.exec(submitted.stdout)?.[0] ?? '';
    const status = async () => JSON.parse((await cluster.run(['status', id, '--output', 'json'])).stdout) as JobStatus;
    const { summaryUri } = await served(status);
    const asUser = (place: string) =>
      fetch(`${cluster.resourceManager}/proxy/${id}/${place}${place.includes('?') ? '&' : '?'}user.name=${USER}`, {
        signal: AbortSignal.timeout(60_000),
      });

    const storage = createStorage({ hadoop: await HadoopConfiguration.fromEnvironment(cluster.environment()), user: USER });
    onTestFinished(() => storage.close());
    const eventFile = joinUri(summaryUri, 'train', 'events.out.tfevents.1');
    await storage.write(eventFile, events('loss', [1, 2]));
    await until(async () => (await runs(asUser)).includes('train'), { describe: () => runs(asUser) });
    const points = async () => {
      const answer = await asUser('data/plugin/scalars/scalars?tag=loss&run=train');
      return ((await answer.json()) as [number, number, number][]).map(([, step]) => step);
    };
    await until(async () => (await points()).length === 2, { describe: points });
    // Rewrites the whole file with more records, as the training library does.
    await storage.write(eventFile, events('loss', [1, 2, 3, 4]));
    await until(async () => (await points()).length === 4, { describe: points });

    const processes = async (word: string) =>
      (await cluster.containers(id)).filter(({ command }) => command.includes(word)).map(({ pid }) => pid);
    const first = await until(async () => (await processes('tensorboard-server.py'))[0], { describe: status });
    process.kill(first, 'SIGKILL');
    await until(async () => (await processes('tensorboard-server.py')).some((pid) => pid !== first), {
      describe: status,
    });
    const before = containerOf(await served(status));
    await until(async () => (await points()).length === 4, { describe: points });

    const executor = await until(async () => executorOf(await processes('task-executor.mjs'), before), { describe: 'the executor' });
    process.kill(executor, 'SIGKILL');
    await until(async () => containerOf(await status()) !== before, { describe: status });
    await served(status);
    await until(async () => (await points()).length === 4, { describe: points });

    await go();
    expect((await cluster.ended(id)).finalStatus).toBe('SUCCEEDED');
  });
});
