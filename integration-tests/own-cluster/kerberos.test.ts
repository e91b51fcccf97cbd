import { access, copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { isOver, type JobInfo } from '../../conf/status/job-info.ts';
import { keytabOf } from '../cluster/kerberos.mjs';
import { type CommandResult, ROOT } from '../command.ts';
import { execute } from '../execute.ts';
import { jsonLines, until, useOwnCluster } from '../harness.ts';

/**
 * A cluster that requires Kerberos everywhere and encrypts Hadoop RPC. Containers have delegation tokens but no tickets. Independent tests
 * run at the same time, because they mostly wait.
 */

const cluster = useOwnCluster('kerberos', { core: { 'hadoop.rpc.protection': 'privacy' } });
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-kerberos-test-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const as = (user: string, words: readonly string[], env: Record<string, string> = {}): Promise<CommandResult> =>
  cluster.run(words, { env: { ...cluster.environment(user), ...env } });

async function submitShell(user: string, command: string, env: Record<string, string> = {}): Promise<string> {
  const file = path.join(folder, `${Math.random().toString(36).slice(2)}.yaml`);
  await writeFile(
    file,
    `name: shell\nframework: none\nruntime: system\ncommand: '${command}'\nroles: {worker: {instances: 1, resources: {memory: 256m}}}\n`,
  );
  const { stdout, stderr } = await as(user, ['submit', '--conf', file, '--detach', '--output', 'json'], env);
  const submitted = jsonLines(stdout).find(({ type }) => type === 'submitted');
  if (submitted === undefined) {
    throw new Error(stderr);
  }
  return String(submitted.id);
}

async function statusOf(user: string, id: string): Promise<JobInfo> {
  return jsonLines((await as(user, ['status', id, '--output', 'json'])).stdout)[0] as never;
}

function reaches(user: string, id: string, state: string): Promise<JobInfo> {
  return until(
    async () => {
      const job = await statusOf(user, id);
      return job.state === state && job;
    },
    { describe: () => statusOf(user, id) },
  );
}

test.concurrent('after a worker has died, the workers train from a checkpoint and read each other’s files on HDFS', async () => {
  const job = path.join(folder, 'training');
  await mkdir(job);
  await writeFile(
    path.join(job, 'job.yaml'),
    `name: kerberos\ncommand: node kerberos.mjs\nsource: ${path.join(ROOT, 'integration-tests', 'programs')}\nroles: {worker: {instances: 2, resources: {memory: 768m}}}\n`,
  );
  const { exitCode, stdout, stderr } = await as('alice', ['submit', '--conf', path.join(job, 'job.yaml'), '--output', 'json']);
  expect(exitCode, stderr + stdout).toBe(0);
  const { id } = jsonLines(stdout).find(({ type }) => type === 'result') as { id: string };
  const status = await statusOf('alice', id);
  expect(status).toMatchObject({ state: 'succeeded', user: 'alice', checkpointStep: 200, generations: 2 });
  expect(status.tasks.map(({ attempts, failures }) => [attempts, failures])).toEqual([
    [1, 0],
    [2, 1],
  ]);
  const shown = await as('alice', ['history', 'show', id]);
  expect(shown.stdout, shown.stderr).toMatch(/worker:1: its program on \S+ exited with code 3/);
  const listed = jsonLines((await as('alice', ['list', '--all', '--output', 'json'])).stdout);
  expect(JSON.stringify(listed)).toContain(id);
});

/** Has no ticket: the executor opens the file with the job's delegation token. */
const PYTHON = `
import tony
uri = f"{tony.context().output_uri}/file"
with tony.open(uri, "w") as file:
    file.write("out of worker")
with tony.open(uri) as file:
    print(file.read(), flush=True)
`;

test.concurrent('a job is visible and accessible to its user only, and its logs are readable while it runs and afterwards', async () => {
  // A secure NodeManager serves a log file only if the file belongs to the application's user. On this cluster, NodeManagers run all
  // containers as the administrator, so the administrator submits the job.
  const owner = cluster.administrator;
  const flag = path.join(folder, 'end');
  const script = path.join(folder, 'files.py');
  await writeFile(script, PYTHON);
  const id = await submitShell(owner, `python3 ${script}; while [ ! -e ${flag} ]; do sleep 0.1; done`);
  await reaches(owner, id, 'running');
  const logs = (user: string): Promise<CommandResult> => as(user, ['logs', id, 'worker:0']);
  expect(
    (
      await until(async () => ((await logs(owner)).stdout.includes('out of worker') ? logs(owner) : undefined), {
        describe: 'the output in the logs',
      })
    ).exitCode,
  ).toBe(0);
  const inside = (user: string): Promise<CommandResult> => as(user, ['exec', id, 'worker:0', '--', 'sh', '-c', 'echo $TONY_ROLE']);
  expect(await inside(owner)).toMatchObject({ exitCode: 0, stdout: 'worker\n' });
  for (const stranger of ['alice', 'bob']) {
    const rejected = await inside(stranger);
    expect([rejected.exitCode, rejected.stdout], rejected.stderr).toEqual([255, '']);
    expect(rejected.stderr).toContain(`${id} is a job of ${owner}; you are ${stranger}`);
    const refused = await logs(stranger);
    expect(refused.exitCode, refused.stdout).not.toBe(0);
    expect(refused.stdout).not.toContain('out of worker');
    const killed = await as(stranger, ['kill', id]);
    expect(killed.exitCode).not.toBe(0);
    expect(killed.stderr).toContain(`${id} is a job of ${owner}, and ${stranger} is not allowed to kill it`);
  }
  expect(await pageOf(id, owner)).toMatch(/^200 \{"apiVersion":/);
  expect(await pageOf(id, 'alice')).toBe('403 User alice may not view this job: ask its owner to add you to acls.view.\n');
  await writeFile(flag, '');
  expect(await reaches(owner, id, 'succeeded')).toMatchObject({ user: owner });
  const aggregated = await logs(owner);
  expect(aggregated.stdout, aggregated.stderr).toContain('out of worker');
  expect((await logs('alice')).stdout).not.toContain('out of worker');
});

test.concurrent('a user without a ticket submits and kills a job with the keytab in the site file', async () => {
  const conf = path.join(folder, 'unattended');
  await mkdir(conf);
  await copyFile(keytabOf(cluster.state, 'bob'), path.join(conf, 'bob.keytab'));
  await writeFile(path.join(conf, 'tony-site.yaml'), 'kerberos: {principal: bob, keytab: bob.keytab}\n');
  const none = path.join(folder, 'none');
  const env = { KRB5CCNAME: `FILE:${none}`, XDG_CACHE_HOME: path.join(folder, 'unattended-cache'), TONY_CONF_DIR: conf };
  const id = await submitShell('alice', 'exec sleep 600', env);
  expect(await reaches('bob', id, 'running')).toMatchObject({ user: 'bob' });
  const { exitCode, stderr } = await as('alice', ['kill', id], env);
  expect(exitCode, stderr).toBe(0);
  await until(async () => isOver(await statusOf('bob', id)), { describe: () => statusOf('bob', id) });
  await expect(access(none)).rejects.toMatchObject({ code: 'ENOENT' });
});

test.concurrent('every check of doctor passes, and doctor reports when the ticket expires', async () => {
  const { exitCode, stdout } = await as('alice', ['doctor', '--output', 'json']);
  const findings = jsonLines(stdout);
  expect(findings.filter(({ state }) => state !== 'ok')).toEqual([]);
  expect(exitCode).toBe(0);
  expect(findings.find(({ name }) => name === 'login')?.message).toMatch(
    /^alice, by the Kerberos ticket of alice@EXAMPLE\.TEST, until \d{4}-\d\d-\d\dT/,
  );
  expect(findings.find(({ name }) => name === 'identity')?.message).toBe('alice, in research');
});

/** Requests a job's page from the ResourceManager's proxy, with the user's ticket and curl, the command that users know. */
async function pageOf(id: string, user: string): Promise<string> {
  const url = `${cluster.resourceManager}/proxy/${id}/tony/api/v1/job`;
  const body = path.join(folder, `page-${user}`);
  const args = ['-s', '--location', '--negotiate', '--user', ':', '--cookie', '', '--output', body, '--write-out', '%{http_code}', url];
  const { stdout } = await execute('curl', args, { env: { ...process.env, ...cluster.environment(user) } });
  return `${stdout} ${await readFile(body, 'utf8')}`;
}

test.concurrent('the primary ticket of a cache collection is the login', async () => {
  const caches = `DIR:${path.join(folder, 'caches')}`;
  await mkdir(path.join(folder, 'caches'));
  const env = { ...process.env, ...cluster.environment('alice'), KRB5CCNAME: caches };
  for (const user of ['alice', 'bob']) {
    await execute('kinit', ['-k', '-t', keytabOf(cluster.state, user), user], { env });
  }
  const login = async (): Promise<unknown> =>
    jsonLines((await as('alice', ['doctor', '--output', 'json'], { KRB5CCNAME: caches })).stdout).find(({ name }) => name === 'login')
      ?.message;
  expect(await login()).toMatch(/^bob, by the Kerberos ticket of bob@/);
  await execute('kswitch', ['-p', 'alice'], { env });
  expect(await login()).toMatch(/^alice, by the Kerberos ticket of alice@/);
});

test.concurrent('a keytab replaces the ticket cache without changing the cache', async () => {
  const env = {
    KRB5CCNAME: `FILE:${path.join(folder, 'none')}`,
    XDG_CACHE_HOME: path.join(folder, 'cache'),
    TONY_PRINCIPAL: 'bob',
    TONY_KEYTAB: keytabOf(cluster.state, 'bob'),
  };
  const { exitCode, stderr } = await as('alice', ['list', '--all'], env);
  expect(exitCode, stderr).toBe(0);
});

// `expect.poll` of a concurrent test needs the test's own `expect`.
test.concurrent('commands report the cause of a Kerberos failure and the next step', async ({ expect }) => {
  const short = `FILE:${path.join(folder, 'short')}`;
  const kinit = ['-k', '-t', keytabOf(cluster.state, 'alice'), '-l', '1s', '-c', short, 'alice'];
  await execute('kinit', kinit, { env: { ...process.env, ...cluster.environment('alice') } });
  const aliased = path.join(folder, 'aliased');
  await mkdir(aliased);
  await writeFile(
    path.join(aliased, 'yarn-site.xml'),
    `<configuration><property><name>yarn.resourcemanager.webapp.address</name><value>127.0.0.1:${cluster.ports.resourcemanager.http}</value></property></configuration>`,
  );
  await writeFile(
    path.join(aliased, 'core-site.xml'),
    `<configuration><property><name>hadoop.security.authentication</name><value>kerberos</value></property><property><name>fs.defaultFS</name><value>${cluster.defaultFs}</value></property></configuration>`,
  );
  const list = async (env: Record<string, string>): Promise<string> => (await as('alice', ['list'], env)).stderr;
  expect(await list({ KRB5CCNAME: `FILE:${path.join(folder, 'none')}` })).toMatch(
    /^error: No Kerberos ticket was found: .*\nhint: Run kinit, or name a keytab/,
  );
  await expect
    .poll(() => list({ KRB5CCNAME: short }), { timeout: 30_000 })
    .toMatch(/^error: The Kerberos ticket of alice@EXAMPLE\.TEST expired at .*\nhint: Run kinit again/);
  expect(await list({ HADOOP_CONF_DIR: aliased })).toMatch(
    /^error: .*127\.0\.0\.1:\d+: Server HTTP\/127\.0\.0\.1@EXAMPLE\.TEST not found in Kerberos database\.\nhint: .*host names/,
  );
});

// The site file limits the jobs of other tests, so this test runs after them.
test('the ApplicationMaster applies the site file of the cluster although nodes serve their configuration only to clients with a ticket', async () => {
  const cheating = path.join(folder, 'conf');
  await mkdir(cheating);
  await writeFile(path.join(cheating, 'tony-site.yaml'), 'quotas: {}\n');
  const site = Buffer.from('quotas: {groups: {students: {job: {memory: 512m}}}}\n');
  await cluster.hdfsMakeFolder('/apps/tony-ts', '755');
  await cluster.hdfsWrite('/apps/tony-ts/site.yaml', site);
  try {
    // This limit applies to the user's group. The ApplicationMaster queries the user's groups from the NameNode with its token.
    const id = await submitShell('bob', 'exec sleep 600', { TONY_CONF_DIR: cheating });
    const ended = await until(
      async () => {
        const job = await statusOf('bob', id);
        return isOver(job) && job;
      },
      { describe: () => statusOf('bob', id) },
    );
    expect(ended).toMatchObject({ state: 'failed', message: expect.stringContaining('students') });
  } finally {
    await cluster.hdfsRemove('/apps/tony-ts');
  }
});
