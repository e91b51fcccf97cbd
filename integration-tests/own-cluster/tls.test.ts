import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ensureTensorBoard } from '../../client/python/ensure-tensorboard.ts';
import type { JobStatus } from '../../conf/status/status.ts';
import { type Properties, toXml } from '../cluster/configuration.mjs';
import { authorityFile } from '../cluster/tls.mjs';
import { type CommandResult, ROOT } from '../command.ts';
import { jsonLines, USER, until, useOwnCluster } from '../harness.ts';

/**
 * A cluster whose web servers use HTTPS. Their certificates come from a private authority, which only the truststore of ssl-client.xml
 * contains. HDFS also offers HTTP, on ports that no client knows: clients with a truststore must choose HTTPS.
 */

/** Policy for the connection from the ResourceManager's proxy to the ApplicationMaster. */
const POLICY = 'yarn.resourcemanager.application-https.policy';
const BOTH = {
  'dfs.http.policy': 'HTTP_AND_HTTPS',
  'dfs.namenode.http-address': 'localhost:0',
  'dfs.datanode.http.address': 'localhost:0',
};
const cluster = useOwnCluster('tls', { yarn: { [POLICY]: 'STRICT' }, hdfs: BOTH });
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-tls-test-'));
  // The first run downloads TensorBoard.
  await ensureTensorBoard();
});
afterAll(() => rm(folder, { recursive: true, force: true }));

async function jobFile(name: string, lines: readonly string[]): Promise<string> {
  const file = path.join(folder, `${name}.yaml`);
  await writeFile(file, `name: ${name}\n${lines.join('\n')}\n`);
  return file;
}

async function submit(file: string, env: Record<string, string> = {}): Promise<string> {
  const { stdout, stderr } = await cluster.run(['submit', '--conf', file, '--detach', '--output', 'json'], { env });
  const submitted = jsonLines(stdout).find(({ type }) => type === 'submitted');
  if (submitted === undefined) {
    throw new Error(stderr);
  }
  return String(submitted.id);
}

async function pageOf(id: string, page: string): Promise<string> {
  const answer = await cluster.request(`${cluster.resourceManager}/proxy/${id}/${page}`);
  const text = await answer.text();
  if (!answer.ok) {
    throw new Error(`${answer.status} ${text}`);
  }
  return text;
}

function shows(id: string, is: (status: JobStatus) => boolean): Promise<JobStatus> {
  const look = async (): Promise<JobStatus> => JSON.parse(await pageOf(id, 'tony/api/v1/job')) as JobStatus;
  return until(
    async () => {
      const status = await look().catch(() => null);
      return status !== null && is(status) && status;
    },
    { describe: () => look().catch(String) },
  );
}

async function restart(policy: string): Promise<void> {
  await cluster.stop('resourcemanager');
  await cluster.configure({ yarn: { [POLICY]: policy } });
  await cluster.start('resourcemanager');
  await cluster.waitUntilReady();
}

/** Copies the client's configuration with changed files. A value of null removes the file. */
async function configuration(
  name: string,
  files: Readonly<Record<string, Properties | string | null>>,
): Promise<{ HADOOP_CONF_DIR: string }> {
  const copy = path.join(folder, name);
  await cp(cluster.configuration, copy, { recursive: true });
  for (const [file, content] of Object.entries(files)) {
    const target = path.join(copy, file);
    await (content === null ? rm(target) : writeFile(target, typeof content === 'string' ? content : toXml(content)));
  }
  return { HADOOP_CONF_DIR: copy };
}

test('under the policy STRICT, workers resume training from HDFS after a worker dies, and all pages are available', async () => {
  const go = path.join(folder, 'go');
  const file = await jobFile('training', [
    `command: exec node elastic-fit.mjs ${path.join(folder, 'steps')} ${go}`,
    `source: {path: ${path.join(ROOT, 'integration-tests', 'programs')}}`,
    'env: {TONY_BACKEND: cpu}',
    'checkpoint: {everySteps: 20}',
    'tensorboard: true',
    'roles: {worker: {instances: 2, resources: {memory: 768m}}}',
  ]);
  const id = await submit(file);
  await shows(id, ({ checkpointStep }) => checkpointStep > 0);
  const programs = (await cluster.containers(id)).filter(({ command }) => command.includes('elastic-fit.mjs'));
  process.kill(programs[0]?.pid ?? 0, 'SIGKILL');
  await shows(id, ({ generations, state, checkpointStep }) => generations === 2 && state === 'running' && checkpointStep > 40);
  expect(await pageOf(id, 'tony/')).toContain('<!doctype html>');
  await until(async () => (await pageOf(id, 'data/environment').catch(() => '')).includes('data_location'), {
    describe: () => pageOf(id, '').catch(String),
  });
  await writeFile(go, '');
  expect(await cluster.ended(id)).toMatchObject({ finalStatus: 'SUCCEEDED' });
  const steps = (await readFile(path.join(folder, 'steps'), 'utf8')).trim().split('\n');
  const stepsOf = (generation: string): number[] =>
    steps.flatMap((line) => (line.startsWith(`${generation} `) ? [Number(line.split(' ')[1])] : []));
  const resumedAt = stepsOf('2')[0];
  expect(resumedAt).toBeGreaterThan(20);
  expect(resumedAt).toBeLessThanOrEqual((stepsOf('1').at(-1) ?? 0) + 1);
  const [logs, ofMaster, history] = (await Promise.all(
    [
      ['logs', id, 'worker:0'],
      ['logs', id, 'master'],
      ['history', '--output', 'json'],
    ].map((words) => cluster.run(words)),
  )) as [CommandResult, CommandResult, CommandResult];
  expect(logs.exitCode, logs.stderr).toBe(0);
  // A warning would state that the pages use plain HTTP, or that the node does not report its configuration.
  expect(ofMaster.stdout, ofMaster.stderr).toContain('registered');
  expect(ofMaster.stdout).not.toMatch(/plain HTTP|did not report its configuration/);
  expect(history.stdout, history.stderr).toContain(id);
});

test('every check of doctor passes', async () => {
  const { exitCode, stdout } = await cluster.run(['doctor', '--output', 'json']);
  const findings = jsonLines(stdout);
  expect(findings.filter(({ state }) => state !== 'ok')).toEqual([]);
  expect(exitCode).toBe(0);
});

test('commands report the cause of an HTTPS failure and the next step', async () => {
  const { resourcemanager, namenode } = cluster.ports;
  const https = { 'yarn.http.policy': 'HTTPS_ONLY' };
  const hdfs = { 'dfs.http.policy': 'HTTPS_ONLY', 'dfs.namenode.https-address': `localhost:${namenode.http}` };
  const [unknown, both, otherName, plain, password] = await Promise.all([
    configuration('unknown', { 'ssl-client.xml': null, 'hdfs-site.xml': hdfs }),
    configuration('both', { 'ssl-client.xml': null }),
    configuration('other-name', {
      'yarn-site.xml': { ...https, 'yarn.resourcemanager.webapp.https.address': `127.0.0.1:${resourcemanager.http}` },
    }),
    configuration('plain', { 'yarn-site.xml': { 'yarn.resourcemanager.webapp.address': `localhost:${resourcemanager.http}` } }),
    configuration('password', {
      'ssl-client.xml': {
        'ssl.client.truststore.location': path.join(cluster.state, 'tls', 'truststore.jks'),
        'ssl.client.truststore.password': 'wrong',
      },
    }),
  ]);
  const list = async (env: Record<string, string>): Promise<string> => (await cluster.run(['list'], { env })).stderr;
  expect(await list(unknown)).toMatch(
    /^error: The certificate of localhost:\d+ is signed by an authority that is not trusted here \(\w+\)\.\nhint: Name a truststore/,
  );
  expect(await list(otherName)).toMatch(
    /^error: The certificate of 127\.0\.0\.1:\d+ is not valid for this host name, but for localhost\.\nhint: /,
  );
  expect(await list(plain)).toMatch(/^error: localhost:\d+ speaks HTTPS, but the configuration says plain HTTP\.\nhint: /);
  expect(await list(password)).toMatch(/^error: The trusted certificates in .*truststore\.jks cannot be read: the password is wrong/);
  const doctor = jsonLines((await cluster.run(['doctor', '--output', 'json'], { env: unknown })).stdout);
  for (const name of ['ResourceManager', 'NameNode']) {
    expect(doctor.find((each) => each.name === name)).toMatchObject({
      state: 'error',
      message: expect.stringContaining('not trusted here'),
      hint: expect.stringContaining('ssl-client.xml'),
    });
  }
  const withBoth = jsonLines((await cluster.run(['doctor', '--output', 'json'], { env: both })).stdout);
  expect(withBoth.find(({ name }) => name === 'certificates')).toMatchObject({
    state: 'warning',
    message: expect.stringMatching(
      /^HDFS offers HTTP and HTTPS, but this client trusts none of the cluster's certificate authorities, so it uses HTTP/,
    ),
  });
});

test('commands skip a server of a pair whose certificate is rejected, and warn about it', async () => {
  const { resourcemanager, namenode } = cluster.ports;
  const pair = (key: string, port: number): Properties => ({ [`${key}.one`]: `127.0.0.1:${port}`, [`${key}.two`]: `localhost:${port}` });
  // The certificates name only localhost, so clients reject the first server of each pair.
  const env = await configuration('pair', {
    'core-site.xml': { 'fs.defaultFS': 'hdfs://pair' },
    'hdfs-site.xml': {
      'dfs.http.policy': 'HTTPS_ONLY',
      'dfs.nameservices': 'pair',
      'dfs.ha.namenodes.pair': 'one,two',
      ...pair('dfs.namenode.https-address.pair', namenode.http),
      ...pair('dfs.namenode.rpc-address.pair', namenode.rpc),
    },
    'yarn-site.xml': {
      'yarn.http.policy': 'HTTPS_ONLY',
      'yarn.resourcemanager.ha.enabled': true,
      'yarn.resourcemanager.ha.rm-ids': 'one,two',
      ...pair('yarn.resourcemanager.webapp.https.address', resourcemanager.http),
      ...pair('yarn.resourcemanager.address', resourcemanager.client),
    },
  });
  for (const [command, port] of [
    ['list', resourcemanager.http],
    ['history', namenode.http],
  ] as const) {
    const { exitCode, stderr } = await cluster.run([command], { env });
    expect(exitCode, stderr).toBe(0);
    const warning = `warning: The certificate of 127.0.0.1:${port} is not valid for this host name, but for localhost. This command uses another`;
    expect(stderr.split(warning), stderr).toHaveLength(2);
  }
  const findings = jsonLines((await cluster.run(['doctor', '--output', 'json'], { env })).stdout);
  expect(findings.find(({ name }) => name === 'ResourceManager')).toMatchObject({ state: 'ok' });
  expect(findings.find(({ name }) => name === 'staging folder')).toMatchObject({ state: 'ok' });
  const certificates = findings.find(({ name }) => name === 'certificates');
  expect(certificates).toMatchObject({ state: 'warning', hint: expect.stringContaining('certificate') });
  expect(String(certificates?.message).match(/is not valid for this host name/g)).toHaveLength(2);
});

test.each([
  ['NONE', 'plain HTTP'],
  ['LENIENT', 'HTTPS'],
])(
  'with the policy %s, the pages are served over %s, to a job whose authority comes from tls.ca of the site file',
  async (policy, _scheme) => {
    await restart(policy);
    const env = await configuration(`site-${policy}`, {
      'ssl-client.xml': null,
      'tony-site.yaml': `tls: {ca: ${authorityFile(cluster.state)}}\n`,
    });
    const go = path.join(folder, `go-${policy}`);
    // The program's own HTTPS connections, from Python and from Node.js, trust the cluster's authority.
    const address = `${cluster.resourceManager}/ws/v1/cluster/info`;
    const python = path.join(folder, 'ask.py');
    const script = path.join(folder, 'ask.mjs');
    await writeFile(python, `import urllib.request\nurllib.request.urlopen("${address}")\n`);
    await writeFile(script, `await fetch("${address}")\n`);
    const shell = `command: 'python3 ${python} && node ${script} && while [ ! -e ${go} ]; do sleep 0.1; done'`;
    const file = await jobFile('shell', [
      'framework: none',
      'runtime: system',
      shell,
      'roles: {worker: {instances: 1, resources: {memory: 256m}}}',
    ]);
    const id = await submit(file, env);
    expect(await shows(id, ({ state }) => state === 'running')).toMatchObject({ user: USER });
    expect(await pageOf(id, 'tony/')).toContain('<!doctype html>');
    await writeFile(go, '');
    expect(await cluster.ended(id)).toMatchObject({ finalStatus: 'SUCCEEDED' });
  },
);
