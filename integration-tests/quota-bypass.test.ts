import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { siteFor } from '../client/cluster/site-for.ts';
import { submit as submitJob } from '../client/submit/submit.ts';
import { parseJob } from '../conf/resolve/load-job.ts';
import { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { createStorage } from '../storage/create-storage.ts';
import { type Changes, HandmadeJobs } from './handmade-job.ts';
import { jsonLines, USER, until, useCluster, type YarnApplication } from './harness.ts';
import {
  ALLOWED,
  EVERYBODYS,
  IN_ANOTHER_NAME,
  INVALID,
  OVER_LIMITS,
  SITE,
  TOO_MANY,
  withHadoop,
  withWorker,
} from './quota-bypass-cases.ts';

/**
 * Users try to bypass the site file on a real cluster without replacing the ApplicationMaster. YARN's final status shows whether an attempt
 * succeeded.
 */

vi.setConfig({ maxConcurrency: 8 });

const cluster = useCluster();
let folder: string;
let handmade: HandmadeJobs;
/** An attacker's server that poses as the cluster's file system and as the node. It imposes no limits. */
let elsewhere: Server;
const requests: string[] = [];

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-bypass-test-'));
  const configuration = await HadoopConfiguration.fromEnvironment(cluster.environment());
  const storage = createStorage({ hadoop: configuration, user: cluster.administrator });
  await cluster.hdfsMakeFolder('/apps/tony-ts', '755');
  await storage.write(`${configuration.defaultFs}/apps/tony-ts/site.yaml`, Buffer.from(SITE));
  storage.close();
  for (const everybodys of EVERYBODYS) {
    await cluster.hdfsMakeFolder(everybodys, '777');
  }
  elsewhere = createServer((request, response) => {
    requests.push(request.url ?? '');
    if (request.url === '/conf') {
      response.end('<configuration><property name="fs.defaultFS" value="hdfs://elsewhere"/></configuration>');
    } else {
      response.writeHead(404, { 'Content-Type': 'application/json' });
      response.end(
        '{"RemoteException":{"exception":"FileNotFoundException","javaClassName":"java.io.FileNotFoundException","message":"none"}}',
      );
    }
  });
  await new Promise<void>((resolve) => elsewhere.listen(0, '127.0.0.1', resolve));
  const { id, end } = await submit(ALLOWED);
  expect(end).toMatchObject({ finalStatus: 'SUCCEEDED' });
  handmade = await HandmadeJobs.like(id, USER, cluster);
});
afterAll(async () => {
  elsewhere.close();
  await cluster.hdfsRemove('/apps/tony-ts');
  for (const everybodys of EVERYBODYS) {
    await cluster.hdfsRemove(everybodys);
  }
  await rm(folder, { recursive: true, force: true });
});

interface Ended {
  readonly id: string;
  readonly end: YarnApplication;
  readonly output: string;
}

async function submit(job: string, words: readonly string[] = [], environment: Readonly<Record<string, string>> = {}): Promise<Ended> {
  const file = path.join(folder, 'job.yaml');
  await writeFile(file, `name: bypass\nframework: none\nruntime: system\ncommand: 'true'\n${job}`);
  const { stdout, stderr } = await cluster.run(['submit', '--conf', file, '--detach', ...words], { env: environment });
  const [id] = /application_\d+_\d+/.exec(stdout) ?? [];
  if (id === undefined) {
    throw new Error(stderr);
  }
  return { id, end: await cluster.ended(id), output: stdout + stderr };
}

const port = () => (elsewhere.address() as AddressInfo).port;
/** Sets another default file system in the job, one without a site file. The job's paths contain their host, so they remain readable. */
const otherFileSystem = () =>
  withHadoop({
    'fs.defaultFS': 'hdfs://elsewhere',
    'dfs.nameservices': 'elsewhere',
    'dfs.namenode.rpc-address.elsewhere': `localhost:${port()}`,
    'dfs.namenode.http-address.elsewhere': `localhost:${port()}`,
    'yarn.resourcemanager.webapp.address': `localhost:${port()}`,
  });

describe('a job submitted by hand', () => {
  test('succeeds when it is within all limits', async () => {
    const end = await cluster.ended(await handmade.submit({}));
    expect(end).toMatchObject({ state: 'FINISHED', finalStatus: 'SUCCEEDED' });
  });

  test.concurrent.each([...OVER_LIMITS, ...IN_ANOTHER_NAME])('fails the ApplicationMaster’s check %s', async (_, changes, expected) => {
    const end = await cluster.ended(await handmade.submit(changes));
    expect(end).toMatchObject({ state: 'FINISHED', finalStatus: 'FAILED' });
    expect(end.diagnostics).toMatch(expected);
  });

  test.each<[string, () => Changes['environment']]>([
    ['', () => ({})],
    [', and another node in its environment', () => ({ NM_HOST: 'localhost', NM_HTTP_PORT: String(port()) })],
  ])('fails the ApplicationMaster’s check with another file system%s', async (_, environment) => {
    const end = await cluster.ended(await handmade.submit({ job: otherFileSystem(), environment: environment() ?? {} }));
    expect(end).toMatchObject({ state: 'FINISHED', finalStatus: 'FAILED' });
    expect(end.diagnostics).toMatch(TOO_MANY);
  });

  test.concurrent.each(INVALID)('with %s fails before its ApplicationMaster registers', async (_, changes, expected) => {
    const end = await cluster.ended(await handmade.submit(changes));
    expect(end).toMatchObject({ state: 'FAILED', finalStatus: 'FAILED' });
    expect(end.diagnostics).toMatch(expected);
  });

  test('fails when a user moves it to a queue with a lower limit while it runs', async () => {
    const id = await handmade.submit({
      job: withWorker((worker) => ({ ...worker, instances: 2, maxInstances: 2, command: 'sleep 600' })),
    });
    const address = `${cluster.resourceManager}/ws/v1/cluster/apps/${id}`;
    await until(
      async () => {
        const { app } = (await (await fetch(`${address}?user.name=${USER}`)).json()) as { app: { runningContainers: number } };
        return app.runningContainers === 3;
      },
      { describe: 'both tasks have containers' },
    );
    const moved = await fetch(`${address}/queue?user.name=${USER}`, {
      method: 'PUT',
      headers: { 'Content-Type': 'application/json' },
      body: '{"queue":"gpu"}',
    });
    expect(await moved.json()).toMatchObject({ queue: expect.stringMatching(/gpu$/) });
    const end = await cluster.ended(id);
    expect(end).toMatchObject({ state: 'FINISHED', finalStatus: 'FAILED' });
    expect(end.diagnostics).toMatch(/admitted in queue default and moved to queue gpu, .*quotas\.queues\.gpu\.instances/);
  });

  test('does not make the ApplicationMaster send requests to servers that the user named', () => {
    expect(requests).toEqual([]);
  });
});

describe('a later job waits for an earlier job that its user may not view', () => {
  const BOB = 'bob';
  const twoGpus = withWorker((worker) => ({
    ...worker,
    instances: 2,
    maxInstances: 2,
    resources: { ...worker.resources, gpus: 1 },
  }));

  async function status(id: string, user: string): Promise<{ readonly state: string; readonly message: string } | null> {
    const { stdout } = await cluster.run(['status', id, '--output', 'json'], { env: { HADOOP_USER_NAME: user } });
    const [first] = jsonLines(stdout) as unknown as readonly { readonly state: string; readonly message: string }[];
    return first ?? null;
  }

  test.each<[string, () => Promise<string>]>([
    ['under an ID that was requested earlier', () => handmade.takeId()],
    ['under an invented ID', async () => 'application_2_0001'],
  ])('%s', async (_, takeId) => {
    const early = await takeId();
    const flag = path.join(folder, `${early}.end`);
    const file = path.join(folder, 'bob.yaml');
    await writeFile(
      file,
      `name: bobs\nframework: none\nruntime: system\ncommand: 'while [ ! -e ${flag} ]; do sleep 0.1; done'\nroles: {worker: {instances: 2, resources: {memory: 512m, gpus: 1}}}\n`,
    );
    const { stdout, stderr } = await cluster.run(['submit', '--conf', file, '--detach'], { env: { HADOOP_USER_NAME: BOB } });
    const [bobs] = /application_\d+_\d+/.exec(stdout) ?? [];
    if (bobs === undefined) {
      throw new Error(stderr);
    }
    await until(async () => (await status(bobs, BOB))?.state === 'running', { describe: 'the job of bob runs' });
    // YARN shows the start time to bob only.
    const seen = await fetch(`${cluster.resourceManager}/ws/v1/cluster/apps/${bobs}?user.name=${USER}`);
    expect(await seen.json()).toMatchObject({ app: { startedTime: 0 } });

    expect(await handmade.submit({ id: early, job: twoGpus })).toBe(early);
    const waiting = await until(
      async () => {
        const first = await status(early, USER);
        return first?.message.includes('holds') ? first : undefined;
      },
      { describe: 'the later job reports its state' },
    );
    expect(waiting).toMatchObject({
      state: 'waiting',
      message: expect.stringContaining(`${bobs} holds 2 gpus, and this job requests 2 gpus`),
    });
    await writeFile(flag, '');
    expect(await cluster.ended(early)).toMatchObject({ finalStatus: 'SUCCEEDED' });
    expect(await cluster.ended(bobs)).toMatchObject({ finalStatus: 'SUCCEEDED' });
  });

  test('under an ID that was requested earlier, together with a job submitted a moment before', async () => {
    const early = await handmade.takeId();
    const flag = path.join(folder, `${early}.end`);
    const holds = await handmade.submit({
      job: (honest) => {
        const { job } = twoGpus(honest);
        return {
          ...honest,
          job: { ...job, roles: job.roles.map((worker) => ({ ...worker, command: `while [ ! -e ${flag} ]; do sleep 0.1; done` })) },
        };
      },
    });
    // When the two jobs check their limits, neither has a container. The ResourceManager's submission times then decide their order.
    await handmade.submit({ id: early, job: twoGpus });
    await until(async () => (await status(holds, USER))?.state === 'running', { describe: 'the first job runs' });
    await until(async () => (await status(early, USER))?.state === 'waiting', { describe: 'the second job waits' });
    await writeFile(flag, '');
    expect(await cluster.ended(early)).toMatchObject({ finalStatus: 'SUCCEEDED' });
    expect(await cluster.ended(holds)).toMatchObject({ finalStatus: 'SUCCEEDED' });
  });
});

describe('when a user changes the settings of the command,', () => {
  /**
   * Creates a configuration folder with a site file that sets no limits. With `from`, the folder also contains a copy of that Hadoop
   * configuration.
   */
  async function cheating(name: string, from: string | null): Promise<string> {
    const conf = path.join(folder, name);
    await mkdir(conf);
    if (from !== null) {
      await cp(from, conf, { recursive: true });
    }
    await writeFile(path.join(conf, 'tony-site.yaml'), 'quotas: {}\n');
    return conf;
  }

  test.each<[string, () => Promise<Readonly<Record<string, string>>>]>([
    ['TONY_CONF_DIR', async () => ({ TONY_CONF_DIR: await cheating('tony', null) })],
    ['HADOOP_CONF_DIR', async () => ({ HADOOP_CONF_DIR: await cheating('hadoop', String(cluster.environment().HADOOP_CONF_DIR)) })],
  ])('the ApplicationMaster ignores the user’s own site file (%s)', async (_, environment) => {
    const { end } = await submit('heartbeat: {interval: 3s}\nroles: {worker: {instances: 3}}\n', [], await environment());
    expect(end.finalStatus).toBe('FAILED');
    expect(end.diagnostics).toMatch(TOO_MANY);
  });

  test('the ApplicationMaster rejects a --set that differs from a final value, even with the user’s own site file', async () => {
    const { end } = await submit(ALLOWED, ['--set', 'heartbeat.interval=1s'], { TONY_CONF_DIR: await cheating('set', null) });
    expect(end.finalStatus).toBe('FAILED');
    expect(end.diagnostics).toMatch(/heartbeat\.interval is 1s, but must be 3s/);
  });

  test.each(['table', 'json'])('the command replaces a value from --set with the final value, and reports it (%s)', async (format) => {
    const { end, output } = await submit(ALLOWED, ['--set', 'heartbeat.interval=1s', '--output', format]);
    expect(end.finalStatus).toBe('SUCCEEDED');
    expect(output).toContain('the site file sets heartbeat.interval to 3s (--set: 1s)');
  });

  test('submitJob rejects a job without the final values before any upload', async () => {
    const job = parseJob(`name: j\nframework: none\nruntime: system\ncommand: 'true'\n${ALLOWED}`, { file: 'x', folder });
    const environment = cluster.clientEnvironment();
    await expect(submitJob(job, { env: environment })).rejects.toMatchObject({ code: 'FINAL_VALUES_MISMATCH' });
    const settled = parseJob(`name: j\nframework: none\nruntime: system\ncommand: 'true'\n${ALLOWED}`, {
      file: 'x',
      folder,
      site: await siteFor({ env: environment }),
    });
    expect(settled.heartbeat.intervalMs).toBe(3000);
    const submitted = await submitJob(settled, { env: environment });
    submitted.close();
    expect((await cluster.ended(submitted.id)).finalStatus).toBe('SUCCEEDED');
  });

  test('the command rejects too many tasks from --set before any upload', async () => {
    await expect(submit(ALLOWED, ['--set', 'roles.worker.instances=3'])).rejects.toThrow(/quotas\.roles\.worker\.instances/);
  });
});
