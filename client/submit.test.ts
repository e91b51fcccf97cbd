import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { createServer, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { parseJob } from '../conf/load-job.ts';
import { parseSite } from '../conf/site.ts';
import { HadoopConfiguration } from '../hadoop/configuration.ts';
import { listening } from '../hadoop/testing/http-server.ts';
import { FileStorage } from '../storage/file-storage.ts';
import { fileUri } from '../storage/uri.ts';
import type { Cluster } from './cluster.ts';
import { submit, submitOn } from './submit.ts';

/* A submit that is aborted after its first steps; integration-tests runs the rest. */

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

/** A ResourceManager that knows one application, and staging on this machine; `posted` is called when the application has been submitted. */
async function clusterWith(posted: () => void, mayKill: boolean): Promise<{ cluster: Cluster; root: string; requests: string[] }> {
  const root = await folder();
  const storage = new FileStorage();
  const home = fileUri(root);
  const user = (await storage.stat(home))?.owner ?? '';
  const requests: string[] = [];
  let state = 'ACCEPTED';
  const server = createServer((request, response) => {
    const said = `${request.method} ${/^[^?]*/.exec(request.url ?? '')?.[0].replace('/ws/v1/cluster/', '')}`;
    requests.push(said);
    request.resume().on('end', () => {
      switch (said) {
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
          if (!mayKill) return json(response, { RemoteException: { exception: 'ForbiddenException', message: 'no' } }, 403);
          state = 'KILLED';
          return json(response, { state: 'KILLING' }, 202);
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
  const site = parseSite('', 'tony-site.yaml');
  const cluster = { configuration, user, storage, home, root: `${home}/staging`, site: async () => site, close: () => storage.close() };
  return { cluster, root, requests };
}

function json(response: ServerResponse, body: unknown, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

test('a submit that is aborted while the ResourceManager is asked kills the job and ends with the reason', async () => {
  const controller = new AbortController();
  const { cluster, root, requests } = await clusterWith(() => controller.abort(new Error('interrupted')), true);
  await expect(submitOn(cluster, job, { signal: controller.signal })).rejects.toThrow('interrupted');
  expect(requests).toContain(`PUT apps/${ID}/state`);
  expect(await readdir(path.join(root, 'staging', 'jobs'))).toEqual([]);
});

test('a job that cannot be killed then is named', async () => {
  const controller = new AbortController();
  const { cluster } = await clusterWith(() => controller.abort(new Error('interrupted')), false);
  await expect(submitOn(cluster, job, { signal: controller.signal })).rejects.toMatchObject({
    code: 'KILL_FAILED',
    hint: `Kill it yourself: tony-ts kill ${ID}.`,
  });
});

test('a submit on this machine that is aborted starts nothing', async () => {
  const localRoot = await folder();
  const controller = new AbortController();
  const onStaging = (): void => controller.abort(new Error('interrupted'));
  await expect(submit(job, { local: true, localRoot, onStaging, signal: controller.signal })).rejects.toThrow('interrupted');
  expect(await readdir(localRoot)).toEqual(['cache']);
});
