import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { withMilliseconds } from '../conf/status/api-object.ts';
import { jobDurationText } from '../conf/status/job-duration.ts';
import type { JobStatus } from '../conf/status/status.ts';
import { type BoundPort, bindPort } from '../training/testing/bind-port.ts';
import type { HistoryList } from '../web/history-list.ts';
import type { Command } from './command.ts';
import { jsonLines, noneLeft, until, useCluster } from './harness.ts';

/** Histories on a real cluster: a shared folder, and a history server that shows each user the jobs that the user may view. */

const cluster = useCluster();
const SHARED = '/shared/history';
let folder: string;
let bound: BoundPort;
let site: { TONY_CONF_DIR: string };

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-history-test-'));
  bound = await bindPort(false);
  await mkdir(path.join(folder, 'conf'));
  const text = `history:\n  dir: hdfs://${SHARED}\n  url: http://127.0.0.1:${bound.port}\n`;
  await writeFile(path.join(folder, 'conf', 'tony-site.yaml'), text);
  site = { TONY_CONF_DIR: path.join(folder, 'conf') };
  for (const user of ['alice', 'bob']) {
    await cluster.hdfsRemove(`/user/${user}/.tony-ts/history`);
  }
  await cluster.hdfsMakeFolder(SHARED, '1777');
  await hdfs(SHARED, 'SETOWNER&group=historians', 'PUT');
});
afterAll(async () => {
  bound.close();
  await cluster.hdfsRemove('/shared');
  await rm(folder, { recursive: true, force: true });
});

async function hdfs(file: string, operation: string, method: string): Promise<void> {
  const answer = await fetch(`${cluster.nameNode}/webhdfs/v1${file}?op=${operation}&user.name=${cluster.administrator}`, { method });
  if (!answer.ok) {
    throw new Error(await answer.text());
  }
}

async function submit(user: string, name: string, command: string, more = ''): Promise<string> {
  const file = path.join(folder, `${name}.yaml`);
  await writeFile(
    file,
    `name: ${name}\nframework: none\nruntime: system\n${more}roles: {worker: {resources: {memory: 512m}, restart: {policy: never}, command: '${command}'}}\n`,
  );
  const words = ['submit', '--conf', file, '--detach', '--output', 'json'];
  const { stdout, stderr } = await cluster.run(words, { env: { ...site, HADOOP_USER_NAME: user } });
  const submitted = jsonLines(stdout).find(({ type }) => type === 'submitted');
  if (submitted === undefined) {
    throw new Error(stderr);
  }
  return String(submitted.id);
}

async function listed(words: readonly string[], user = 'alice'): Promise<{ lines: Record<string, unknown>[]; stderr: string }> {
  const { stdout, stderr, exitCode } = await cluster.run(['history', ...words, '--output', 'json'], {
    env: { ...site, HADOOP_USER_NAME: user },
  });
  expect(stderr).toBe('');
  expect(exitCode).toBe(0);
  return { lines: jsonLines(stdout), stderr };
}

async function serving(words: readonly string[], user: string): Promise<{ server: Command; url: string }> {
  const server = cluster.startCommand(['history', 'serve', ...words], { env: { ...site, HADOOP_USER_NAME: user } });
  const [, url = ''] = await server.output(/^history: (\S+)$/m);
  return { server, url };
}

describe('a history for all users', () => {
  let good: string;
  let bad: string;
  let killed: string;
  let others: string;

  beforeAll(async () => {
    good = await submit('alice', 'good', 'echo all is well');
    bad = await submit('alice', 'bad', 'echo the cause >&2; exit 3', 'acls: {view: {users: [carol]}}\n');
    others = await submit('bob', 'others', 'echo mine');
    killed = await submit('alice', 'killed', 'sleep 600');
    await Promise.all([good, bad, others].map((id) => cluster.ended(id)));
    const events = `${SHARED}/alice/${killed}/events-1.jsonl`;
    await until(async () => (await cluster.hdfsRead(events)).includes('program-started'), { describe: () => cluster.application(killed) });
    // YARN kills this job, so its ApplicationMaster cannot write a final status.
    await cluster.killApplication(killed);
    await cluster.ended(killed);
    await noneLeft(cluster, killed);
  });

  test('is readable for its owner and group only', async () => {
    const tree = await cluster.hdfsTree(SHARED);
    const of = (name: string): string | undefined => tree.find((entry) => entry.path === `${SHARED}/${name}`)?.permission;
    expect(of('alice')).toBe('750');
    expect(of(`alice/${good}`)).toBe('750');
    for (const name of ['job.json', 'events-1.jsonl', 'final.json']) {
      expect(of(`alice/${good}/${name}`)).toBe('640');
    }
    expect(tree.filter(({ owner }) => owner === 'bob').every(({ path: name }) => name.startsWith(`${SHARED}/bob`))).toBe(true);
  });

  test('lists its jobs, newest first', async () => {
    const { lines } = await listed(['list']);
    expect(lines.map(({ id, state }) => [id, state])).toEqual([
      [killed, 'killed'],
      [bad, 'failed'],
      [good, 'succeeded'],
    ]);
    expect((await listed(['--state', 'failed'])).lines.map(({ name }) => name)).toEqual(['bad']);
    expect((await listed(['--name', 'OO', '--limit', '1'])).lines.map(({ name }) => name)).toEqual(['good']);
    expect((await listed(['--user', 'bob'], cluster.administrator)).lines).toMatchObject([{ id: others, user: 'bob' }]);
    const { stdout } = await cluster.run(['history'], { env: site });
    expect(stdout.split('\n')[0]).toMatch(/^JOB +NAME +STATE +SUBMITTED +TOOK$/);
    expect(stdout.split('\n').every((line) => line.length < 80)).toBe(true);
  });

  test('shows the same duration of a job in all commands: from its submission, before its ApplicationMaster started', async () => {
    const json = await cluster.run(['history', 'show', good, '--output', 'json'], { env: site });
    const [status] = jsonLines(json.stdout).map(withMilliseconds) as unknown as [JobStatus];
    const { startedTime } = (await cluster.application(good)) as unknown as { startedTime: number };
    expect(status.createdAt).toBeLessThanOrEqual(startedTime);
    expect(startedTime).toBeLessThan(status.startedAt);
    const took = jobDurationText(status, 0);
    const table = await cluster.run(['history'], { env: site });
    expect(table.stdout.split('\n').find((line) => line.startsWith(good))).toMatch(new RegExp(` ${took}$`));
    for (const words of [
      ['history', 'show', good],
      ['describe', good],
    ]) {
      expect((await cluster.run(words, { env: site })).stdout).toContain(`, took ${took}\n`);
    }
    expect((await cluster.run(['status', good], { env: site })).stdout).toMatch(new RegExp(` ${took}$`, 'm'));
  });

  test('omits the histories of other users, and names these users', async () => {
    const { lines } = await listed(['--all-users']);
    expect(lines.some(({ user }) => user === 'bob')).toBe(false);
    expect(lines.at(-1)).toMatchObject({ kind: 'Notice', message: expect.stringContaining('The histories of bob cannot be read') });
    const shown = await cluster.run(['history', 'show', others], { env: site });
    expect(shown).toMatchObject({ exitCode: 2, stderr: expect.stringContaining(`There is no history of ${others}`) });
  });

  test('shows the course of a job and the cause of its failure', async () => {
    const { stdout } = await cluster.run(['history', 'show', bad], { env: site });
    expect(stdout).toContain(`${bad} failed`);
    expect(stdout).toMatch(/first failure\nworker:0: its program .*exited with code 3\n {2}the cause/);
    expect(stdout).toContain('job-finished');
    const json = await cluster.run(['history', 'show', killed, '--output', 'json'], { env: site });
    const [{ events, ...status }] = jsonLines(json.stdout) as [Record<string, unknown> & { events: unknown[] }];
    expect(status).toMatchObject({ state: 'killed', user: 'alice', name: 'killed', tasks: [{ role: 'worker', state: 'stopped' }] });
    expect(events.length).toBeGreaterThan(2);
    expect((await cluster.run(['status', good], { env: site })).stdout).toContain('worker:0');
  });

  test('is served to each user according to the view ACLs of the jobs', async () => {
    const { server, url } = await serving(['--auth', 'simple', '--port', String(bound.port)], 'historian');
    expect(url).toBe(`http://127.0.0.1:${bound.port}/`);
    const asked = (user: string, target: string): Promise<Response> =>
      fetch(`${url}${target}${target.includes('?') ? '&' : '?'}user.name=${user}`);
    const names = async (user: string): Promise<string[]> =>
      ((await (await asked(user, 'tony/api/v1/history')).json()) as HistoryList).jobs.map(({ name }) => name);
    expect(await names('alice')).toEqual(['killed', 'bad', 'good']);
    expect(await names('bob')).toEqual(['others']);
    expect(await names('carol')).toEqual(['bad']);
    expect(await names('dr.who')).toEqual([]);
    expect(new Set(await names(cluster.administrator))).toEqual(new Set(['killed', 'bad', 'others', 'good']));

    const job = `jobs/alice/${good}/`;
    expect((await fetch(`${url}${job}tony/api/v1/job`)).status).toBe(401);
    const refused = await asked('bob', `${job}tony/api/v1/job`);
    expect([refused.status, await refused.text()]).toEqual([403, expect.stringContaining('acls.view')]);
    expect((await asked('bob', `jobs/alice/application_1_0001/`)).status).toBe(403);
    expect(await (await asked('alice', `${job}tony/api/v1/job`)).json()).toMatchObject({ id: good, state: 'succeeded' });
    for (const resource of ['events', 'usage', 'scalars', 'configuration']) {
      expect((await asked('alice', `${job}tony/api/v1/${resource}`)).status).toBe(200);
    }

    // Signs in as a browser does: the form sends the user name, the response sets a cookie, and the redirect removes the name from the URL.
    const form = await fetch(`${url}${job}`, { headers: { accept: 'text/html' } });
    expect([form.status, form.headers.get('www-authenticate'), await form.text()]).toEqual([
      401,
      'PseudoAuth',
      expect.stringContaining('name="user.name"'),
    ]);
    const secret = /name="sign-in" value="([\w-]+)"/.exec(
      await (await fetch(`${url}${job}`, { headers: { accept: 'text/html' } })).text(),
    )?.[1];
    const entered = await fetch(`${url}${job}?user.name=alice&sign-in=${secret}`, {
      headers: { accept: 'text/html', cookie: `tony-history-form=${secret}` },
      redirect: 'manual',
    });
    expect([entered.status, entered.headers.get('location')]).toEqual([303, './']);
    const cookie = entered.headers.get('set-cookie')?.split(';')[0] ?? '';
    expect((await fetch(`${url}${job}tony/`, { headers: { cookie, accept: 'text/html' } })).status).toBe(200);
    const forged = cookie.replace(/=[\w-]+/, `=${Buffer.from('bob').toString('base64url')}`);
    expect((await fetch(`${url}jobs/bob/${others}/tony/`, { headers: { cookie: forged } })).status).toBe(401);

    expect((await cluster.application(good)).trackingUrl).toContain(`/proxy/${good}/`);
    const link = await fetch(`${cluster.resourceManager}/proxy/${good}/`, { redirect: 'manual' });
    expect([link.status, link.headers.get('location')]).toEqual([302, `${url}${job}`]);

    server.signal('SIGTERM');
    expect(await server.result).toMatchObject({ exitCode: 0, stderr: '' });
  });

  test('is served to every client that has the printed URL, with the permissions of the serving user', async () => {
    const { server, url } = await serving([], 'alice');
    const { origin, searchParams } = new URL(url);
    expect((await fetch(`${origin}/tony/api/v1/history`)).status).toBe(403);
    const headers = { authorization: `Bearer ${searchParams.get('token')}` };
    const { jobs } = (await (await fetch(`${origin}/tony/api/v1/history`, { headers })).json()) as HistoryList;
    expect(jobs.map(({ id }) => id)).toEqual([killed, bad, good]);
    expect((await fetch(`${origin}/jobs/bob/${others}/tony/`, { headers })).status).not.toBe(200);
    const log = await until(
      async () => {
        const answer = await fetch(`${origin}/jobs/alice/${bad}/tony/api/v1/log?task=worker:0&file=stderr`, { headers });
        return answer.status === 200 && ((await answer.json()) as { text: string });
      },
      { describe: 'the logs are collected' },
    );
    expect(log.text).toContain('the cause');
    server.signal('SIGINT');
    expect((await server.result).exitCode).toBe(0);
  });

  test('can be pruned, except for the histories of running jobs', async () => {
    const running = await submit('alice', 'running', 'sleep 600');
    const events = `${SHARED}/alice/${running}/events-1.jsonl`;
    await until(async () => (await cluster.hdfsRead(events)).includes('program-started'), { describe: 'the job runs' });
    const prune = (words: readonly string[], env = {}) => cluster.run(['history', 'prune', ...words], { env: { ...site, ...env } });
    expect((await prune([])).stdout).toBe('0 histories, 0 B removed\n');
    const dry = await prune(['--older-than', '0s', '--dry-run']);
    expect(dry.stdout).toContain(`would remove ${good} (`);
    expect(dry.stdout).toMatch(/^3 histories, [\d.]+ kB would be removed$/m);
    expect(dry.stdout).not.toContain(running);
    expect((await cluster.hdfsTree(`${SHARED}/alice/${good}`)).length).toBeGreaterThan(0);
    const real = await prune(['--older-than', '0s']);
    expect(real.stdout).toMatch(/^3 histories, [\d.]+ kB removed$/m);
    expect((await listed(['list'])).lines).toMatchObject([{ id: running, state: 'running' }]);
    expect((await cluster.hdfsTree(`${SHARED}/bob/${others}`)).length).toBeGreaterThan(0);
    expect((await prune(['--older-than', '0s', '--all-users'], { HADOOP_USER_NAME: cluster.administrator })).stdout).toContain(
      `removed ${others} of bob`,
    );
    await cluster.run(['kill', running], { env: site });
    await noneLeft(cluster, running);
  });
});

test('a command reports all mistakes of the site file', async () => {
  await mkdir(path.join(folder, 'wrong'), { recursive: true });
  await writeFile(path.join(folder, 'wrong', 'tony-site.yaml'), 'histroy: {}\nhistory: {keep: 1}\n');
  const { exitCode, stderr } = await cluster.run(['history'], { env: { TONY_CONF_DIR: path.join(folder, 'wrong') } });
  expect(exitCode).toBe(2);
  expect(stderr).toContain('The site file has 2 mistakes:');
  expect(stderr).toContain('tony-site.yaml:1:1  histroy: is not a known key; did you mean `history`?');
});
