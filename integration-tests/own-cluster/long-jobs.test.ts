import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { JobStatus } from '../../conf/status/status.ts';
import { decodeCredentials, encodeTokenUrl, type Token } from '../../hadoop/rpc/credentials.ts';
import { keytabOf } from '../cluster/kerberos.mjs';
import { ROOT } from '../command.ts';
import { jsonLines, until, useOwnCluster } from '../harness.ts';

/** Jobs that run longer than the maximum lifetime of their delegation tokens, on a cluster with a key server for encryption zones. */

const LIFETIME_MS = 36_000;

const cluster = useOwnCluster('kms', {
  core: {
    // Lets the ResourceManager replace the tokens with which NodeManagers localise files and aggregate logs.
    'hadoop.proxyuser.yarn.hosts': '*',
    'hadoop.proxyuser.yarn.users': '*',
  },
  hdfs: {
    'dfs.namenode.delegation.token.max-lifetime': LIFETIME_MS,
    'dfs.namenode.delegation.token.renew-interval': LIFETIME_MS,
  },
  yarn: {
    'yarn.resourcemanager.proxy-user-privileges.enabled': true,
    'yarn.resourcemanager.delegation.token.max-lifetime': LIFETIME_MS,
    'yarn.resourcemanager.delegation.token.renew-interval': LIFETIME_MS,
  },
});
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-long-jobs-test-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const asAlice = (...words: string[]) => cluster.run(words, { env: cluster.environment('alice') });

async function submit(name: string, yaml: string): Promise<string> {
  await mkdir(path.join(folder, name));
  const file = path.join(folder, name, 'job.yaml');
  await writeFile(file, yaml);
  const { stdout, stderr } = await asAlice('submit', '--conf', file, '--detach', '--output', 'json');
  const submitted = jsonLines(stdout).find(({ type }) => type === 'submitted');
  if (submitted === undefined) {
    throw new Error(stderr);
  }
  return String(submitted.id);
}

async function statusOf(id: string): Promise<JobStatus> {
  return jsonLines((await asAlice('status', id, '--output', 'json')).stdout)[0] as never;
}

/** Returns the delegation tokens of the running program of a worker, by kind. */
async function tokensOfProgram(id: string): Promise<Map<string, Token>> {
  const data = path.join(cluster.state, 'data');
  const [file] = (await readdir(data, { recursive: true })).filter((each) => each.includes(id) && each.endsWith('/delegation-tokens'));
  const { tokens } = decodeCredentials(await readFile(path.join(data, file ?? 'missing')));
  return new Map(tokens.map(({ token }) => [token.kind, token]));
}

/** Returns the status of the key server's answer to a client with this token. */
async function askKeyServer(token: Token | undefined): Promise<number> {
  const url = `http://localhost:${cluster.ports.keyserver?.http}/kms/v1/keys/names`;
  const headers: Record<string, string> = token === undefined ? {} : { 'X-Hadoop-Delegation-Token': encodeTokenUrl(token) };
  const answer = await fetch(url, { headers });
  await answer.arrayBuffer();
  return answer.status;
}

/** Waits until the status has a property, and returns it. */
function reaches(id: string, holds: (status: JobStatus) => boolean): Promise<JobStatus> {
  return until(
    async () => {
      const status = await statusOf(id);
      return holds(status) && status;
    },
    { describe: () => statusOf(id) },
  );
}

test.concurrent('a job with a keytab trains for more than two lifetimes of its tokens, through a failure of its ApplicationMaster', async () => {
  const end = path.join(folder, 'end');
  const id = await submit(
    'keytab',
    `name: keytab
runtime: system
command: node long-training.mjs
source: ${path.join(ROOT, 'integration-tests', 'programs')}
env: {END: ${end}}
checkpoint: {everySteps: 2}
kerberos: {keytab: ${keytabOf(cluster.state, 'alice')}, principal: alice@EXAMPLE.TEST}
master: {env: {KRB5_CONFIG: ${cluster.environment('alice').KRB5_CONFIG}}}
roles: {worker: {instances: 2, resources: {memory: 768m}}}
`,
  );
  const started = await reaches(id, ({ state, checkpointStep }) => state === 'running' && checkpointStep > 0);
  const startedAt = Date.now();

  const staging = `/user/alice/.tony-ts/jobs/${id}`;
  const [staged] = (await cluster.hdfsTree(staging)).filter((entry) => entry.path.endsWith('/keytab'));
  expect(staged).toMatchObject({ owner: 'alice', permission: '600' });
  const local = await readdir(path.join(cluster.state, 'data'), { recursive: true });
  const inContainers = (name: string) => local.filter((file) => new RegExp(`/${id}/container_[^/]+/${name}$`).test(file));
  expect(inContainers('job.json')).toHaveLength(3);
  expect(inContainers('keytab')).toHaveLength(1);

  const first = await tokensOfProgram(id);
  expect([...first.keys()].sort()).toEqual(['HDFS_DELEGATION_TOKEN', 'kms-dt']);
  expect(await askKeyServer(first.get('kms-dt'))).toBe(200);
  expect(await askKeyServer(undefined)).toBe(401);

  // The tokens of the submission have ended.
  await reaches(id, () => Date.now() > startedAt + LIFETIME_MS);
  const [master] = (await cluster.containers(id)).filter(({ command }) => command.includes('application-master.mjs'));
  process.kill(master?.pid as number, 'SIGKILL');
  await reaches(id, ({ masterAttempt, state }) => masterAttempt === 2 && state === 'running');

  await reaches(id, () => Date.now() > startedAt + 2 * LIFETIME_MS);
  const before = await reaches(id, ({ state }) => state === 'running');
  await reaches(id, ({ checkpointStep }) => checkpointStep > before.checkpointStep);
  const last = await tokensOfProgram(id);
  for (const kind of first.keys()) {
    expect(last.get(kind)?.identifier, kind).not.toEqual(first.get(kind)?.identifier);
  }
  expect(await askKeyServer(last.get('kms-dt'))).toBe(200);
  await writeFile(end, '');
  const ended = await reaches(id, ({ finishedAt }) => finishedAt !== null);
  expect(ended).toMatchObject({ state: 'succeeded', generations: 1, notices: [] });
  expect(ended.tasks.map(({ attempts }) => attempts)).toEqual([1, 1]);
  expect(ended.step).toBeGreaterThan(started.step);
  expect((await cluster.hdfsTree(`/user/alice/.tony-ts/output/${id}`)).map(({ path: file }) => path.basename(file))).toEqual(
    expect.arrayContaining(['rank-0', 'rank-1']),
  );
  await until(async () => (await cluster.hdfsTree(staging)).length === 0, { describe: () => cluster.hdfsTree(staging) });
});

test.concurrent('a job without a keytab announces the end of its tokens, and then fails with the next step', async () => {
  const id = await submit(
    'none',
    'name: none\nframework: none\nruntime: system\ncommand: exec sleep 600\nroles: {worker: {resources: {memory: 256m}}}\n',
  );
  const { notices } = await reaches(id, (status) => status.notices.length > 0);
  expect(notices).toEqual([
    expect.stringMatching(
      /^The delegation tokens expire at \S+Z\. After that, the job cannot use HDFS\. Submit it again with --set checkpoint\.dir=hdfs:/,
    ),
  ]);
  const { finalStatus, diagnostics } = await cluster.ended(id);
  expect({ finalStatus, diagnostics }).toEqual({
    finalStatus: 'FAILED',
    diagnostics: expect.stringMatching(/^The job's delegation tokens expired at \S+Z, so it cannot use HDFS any more\. Submit it again/),
  });
});
