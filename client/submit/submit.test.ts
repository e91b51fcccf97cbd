import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { createServer, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { parseJob } from '../../conf/resolve/load-job.ts';
import { parseSite } from '../../conf/resolve/site.ts';
import { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { SimpleLogin } from '../../hadoop/security/login.ts';
import { listening } from '../../hadoop/testing/http-server.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { s3Finder } from '../../storage/s3/find-s3-connection.ts';
import { fileUri } from '../../storage/uri.ts';
import type { HadoopCluster } from '../cluster/cluster.ts';
import type { JobPlan } from '../plan/job-plan.ts';
import { dryRunOf, type JobSource, openSubmission, send } from './open-submission.ts';
import type { SubmissionOptions } from './submission.ts';
import { planJob, submit } from './submit.ts';
import { submitForProgram } from './submit-for-program.ts';

/* Tests submissions that fail or are interrupted. integration-tests tests successful submissions. */

const ID = 'application_1795225023264_0001';
const job = parseJob('name: a\nframework: none\nruntime: system\ntensorboard: false\ncommand: sleep 1\nroles: {worker: {instances: 1}}\n', {
  file: 'job.yaml',
  folder: '/nowhere',
});

async function folder(): Promise<string> {
  const made = await mkdtemp(path.join(tmpdir(), 'tony-ts-test-'));
  onTestFinished(() => rm(made, { recursive: true, force: true }));
  return made;
}

interface TestCluster {
  readonly cluster: HadoopCluster;
  readonly root: string;
  readonly requests: string[];
  closed(): number;
}

/** A ResourceManager with one application, and a local staging folder. `posted` is called after the submission. */
async function clusterWith(posted: () => void, mayKill: boolean, scheduler: object = {}): Promise<TestCluster> {
  const root = await folder();
  const storage = new FileStorage();
  const home = fileUri(root);
  const user = (await storage.stat(home))?.owner ?? '';
  const requests: string[] = [];
  let state = 'ACCEPTED';
  const server = createServer((request, response) => {
    const line = `${request.method} ${/^[^?]*/.exec(request.url ?? '')?.[0].replace('/ws/v1/cluster/', '')}`;
    requests.push(line);
    request.resume().on('end', () => {
      switch (line) {
        case 'GET info':
          return json(response, { clusterInfo: { haState: 'ACTIVE' } });
        case 'POST apps/new-application':
          return json(response, { 'application-id': ID, 'maximum-resource-capability': { memory: 8192, vCores: 8 } });
        case 'POST apps':
          posted();
          return json(response, {}, 202);
        case `GET apps/${ID}`:
          return json(response, { app: { id: ID, user, state, startedTime: 1 } });
        case `PUT apps/${ID}/state`:
          if (!mayKill) {
            return json(response, { RemoteException: { exception: 'ForbiddenException', message: 'no' } }, 403);
          }
          state = 'KILLED';
          return json(response, { state: 'KILLING' }, 202);
        case 'GET scheduler':
          return json(response, { scheduler: { schedulerInfo: scheduler } });
        default:
          return json(response, {});
      }
    });
  });
  const address = await listening(server);
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const configuration = HadoopConfiguration.fromProperties({
    'fs.defaultFS': 'hdfs://127.0.0.1:1',
    'yarn.resourcemanager.webapp.address': new URL(address).host,
  });
  const site = parseSite('{}', 'tony-site.yaml');
  let closed = 0;
  const close = (): void => {
    closed++;
    storage.close();
  };
  const login = new SimpleLogin(user);
  const s3 = s3Finder({ environment: {}, hadoop: null });
  const cluster = {
    configuration,
    environment: {},
    user,
    login,
    storage,
    s3,
    home,
    root: `${home}/staging`,
    site: async () => site,
    keepingSite: async () => site,
    close,
  };
  return { cluster, root, requests, closed: () => closed };
}

async function submitOn(cluster: HadoopCluster, source: JobSource, options: SubmissionOptions = {}) {
  return send(await openSubmission(source, options, async () => cluster));
}

async function dryRunOn(cluster: HadoopCluster, source: JobSource) {
  return dryRunOf(await openSubmission(source, { dryRun: true }, async () => cluster));
}

function json(response: ServerResponse, body: unknown, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

test('an abort during the submission kills the job and rejects with the reason', async () => {
  const controller = new AbortController();
  const { cluster, root, requests, closed } = await clusterWith(() => controller.abort(new Error('interrupted')), true);
  await expect(submitOn(cluster, job, { signal: controller.signal })).rejects.toThrow('interrupted');
  expect(closed()).toBe(1);
  expect(requests).toContain(`PUT apps/${ID}/state`);
  expect(await readdir(path.join(root, 'staging', 'jobs'))).toEqual([]);
});

test('the error of an aborted submit names the job if it could not be killed', async () => {
  const controller = new AbortController();
  const { cluster, closed } = await clusterWith(() => controller.abort(new Error('interrupted')), false);
  await expect(submitOn(cluster, job, { signal: controller.signal })).rejects.toMatchObject({
    code: 'KILL_FAILED',
    hint: `To kill the job, run tony-ts kill ${ID}.`,
  });
  expect(closed()).toBe(1);
});

test('the cluster is closed with the connection of a submitted job, and immediately after a dry run or a failure', async () => {
  const submitted = await clusterWith(() => {}, true);
  const connection = await submitOn(submitted.cluster, job);
  expect(submitted.closed()).toBe(0);
  connection.close();
  expect(submitted.closed()).toBe(1);

  const planned = await clusterWith(() => {}, true);
  await dryRunOn(planned.cluster, job);
  expect(planned.closed()).toBe(1);

  const refused = await clusterWith(() => {}, true);
  const failing = {
    ...refused.cluster,
    storage: Object.assign(new FileStorage(), { write: () => Promise.reject(new Error('disk full')) }),
  };
  await expect(submitOn(failing, job)).rejects.toThrow('disk full');
  expect(refused.closed()).toBe(1);
});

test('reports a mistake in the job even if the cluster is unreachable, and closes the cluster', async () => {
  const { cluster, closed } = await clusterWith(() => {}, true);
  const away = { ...cluster, site: () => Promise.reject(new Error('unreachable')) };
  const broken = async () => {
    throw new Error('job.yaml is invalid');
  };
  await expect(submitOn(away, broken)).rejects.toThrow('job.yaml is invalid');
  await expect(submitOn(away, async () => job)).rejects.toThrow('unreachable');
  await expect(submitOn(cluster, broken)).rejects.toThrow('job.yaml is invalid');
  expect(closed()).toBe(3);
});

test('an aborted local submit starts nothing', async () => {
  const localRoot = await folder();
  const controller = new AbortController();
  const onStaging = (): void => controller.abort(new Error('interrupted'));
  await expect(submit(job, { local: true, localRoot, onStaging, signal: controller.signal })).rejects.toThrow('interrupted');
  expect(await readdir(localRoot)).toEqual(['cache']);
});

/** A job with a note, because it sets PATH for its programs. */
const notedJob = { ...job, env: { PATH: '/usr/bin:/bin' } };
const NOTE = 'env replaces the whole PATH. The shell finds commands such as node only in the folders on the new PATH.';

test('a local submit prints the notes of the dry run before it starts anything', async () => {
  const localRoot = await folder();
  const controller = new AbortController();
  const lines: string[] = [];
  const onStaging = (): void => controller.abort(new Error('interrupted'));
  const options = { local: true, localRoot, onStaging, signal: controller.signal, onProgress: (line: string) => lines.push(line) };
  await expect(submit(notedJob, options)).rejects.toThrow('interrupted');
  expect((await planJob(notedJob, { local: true, localRoot })).notes).toEqual([NOTE]);
  expect(lines).toEqual([NOTE]);
});

test('onProgress receives the notes of the plan on a cluster, unless onPlan receives the plan', async () => {
  const notesOf = async (withPlan: boolean) => {
    const { cluster } = await clusterWith(() => {}, true);
    const lines: string[] = [];
    const plans: (readonly string[])[] = [];
    const onPlan = withPlan ? { onPlan: ({ notes }: JobPlan) => void plans.push(notes) } : {};
    const connection = await submitOn(cluster, notedJob, { ...onPlan, onProgress: (line) => lines.push(line) });
    connection.close();
    return { lines: lines.filter((line) => line === NOTE), plans: plans.flat().filter((line) => line === NOTE) };
  };
  expect(await notesOf(false)).toEqual({ lines: [NOTE], plans: [] });
  expect(await notesOf(true)).toEqual({ lines: [], plans: [NOTE] });
});

test('onProgress of a program receives the lines about the files and the job that the command prints', async () => {
  const { cluster } = await clusterWith(() => {}, true);
  const lines: string[] = [];
  const connection = await submitForProgram(job, { onProgress: (line) => lines.push(line) }, async () => cluster);
  connection.close();
  expect(lines).toContainEqual(expect.stringMatching(/^tony uploaded \(.+\)$/));
  expect(lines.at(-1)).toBe(`submitted ${ID} to queue default`);
});

test('rejects a runtime on HDFS for a local job, before creating any file', async () => {
  const localRoot = await folder();
  const elsewhere = { ...job, runtime: 'hdfs:///runtimes/own.tar.gz' };
  const refused = {
    code: 'JOB_INVALID',
    message: expect.stringContaining('runtime is hdfs:///runtimes/own.tar.gz'),
    hint: expect.stringContaining('--set runtime='),
  };
  await expect(submit(elsewhere, { local: true, localRoot })).rejects.toMatchObject(refused);
  await expect(planJob(elsewhere, { local: true, localRoot })).rejects.toMatchObject(refused);
  expect(await readdir(localRoot)).toEqual([]);
});

test('rejects a job whose program file does not exist, before any upload, and so does a dry run', async () => {
  const { cluster, root } = await clusterWith(() => {}, true);
  const localRoot = await folder();
  const misspelt = { ...job, roles: job.roles.map((role) => ({ ...role, command: 'node trian.ts' })) };
  const refused = { code: 'SOURCE_NOT_FOUND', message: 'The command of role worker runs trian.ts, but the job contains no such file.' };
  await expect(submitOn(cluster, misspelt)).rejects.toMatchObject(refused);
  await expect(dryRunOn(cluster, misspelt)).rejects.toMatchObject(refused);
  await expect(submit(misspelt, { local: true, localRoot })).rejects.toMatchObject(refused);
  await expect(planJob(misspelt, { local: true, localRoot })).rejects.toMatchObject(refused);
  expect([await readdir(root), await readdir(localRoot)]).toEqual([[], []]);
});

test('rejects a Job whose GPUs are hidden from quotas, before any request or upload', async () => {
  const { cluster, requests } = await clusterWith(() => {}, true);
  const roles = job.roles.map((role) => ({ ...role, resources: { ...role.resources, other: { 'yarn.io/gpu': 8 } } }));
  const refused = { code: 'JOB_INVALID', message: expect.stringContaining('roles.0.resources.other.yarn.io/gpu') };
  await expect(submitOn(cluster, { ...job, roles })).rejects.toMatchObject(refused);
  await expect(dryRunOn(cluster, { ...job, roles })).rejects.toMatchObject(refused);
  expect(requests).toEqual([]);
  await expect(submit({ ...job, roles }, { local: true })).rejects.toMatchObject(refused);
  await expect(planJob({ ...job, roles }, { local: true })).rejects.toMatchObject(refused);
});

test('a stopped queue fails a submit before any upload, and a dry run then shows no request', async () => {
  const stopped = { queueName: 'night', queuePath: 'root.night', state: 'STOPPED' };
  const { cluster, root, requests } = await clusterWith(() => {}, true, {
    type: 'capacityScheduler',
    queueName: 'root',
    queuePath: 'root',
    queues: { queue: [stopped, { ...stopped, queueName: 'default', queuePath: 'root.default' }] },
  });
  const refused = { code: 'JOB_DENIED', message: 'Queue root.night is STOPPED.' };
  await expect(submitOn(cluster, { ...job, queue: 'night' })).rejects.toMatchObject(refused);
  expect(requests).not.toContain('POST apps');
  expect(await readdir(root)).toEqual([]);
  expect(await dryRunOn(cluster, { ...job, queue: 'night' })).toMatchObject({
    plan: { verdict: { type: 'rejected' } },
    request: null,
  });
  // The queue `default` is stopped, but YARN's placement rules may move the job to another queue.
  const { plan, request } = await dryRunOn(cluster, job);
  expect({ verdict: plan.verdict.type, asks: request !== null }).toEqual({ verdict: 'rejected', asks: true });
});
