import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import type { JobStatus } from '../../conf/status/status.ts';
import { listening } from '../../hadoop/testing/http-server.ts';
import type { CommandResult } from '../command.ts';
import { useOwnCluster } from '../harness.ts';

const cluster = useOwnCluster('kerberos', { core: { 'hadoop.rpc.protection': 'privacy' } });
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-identities-test-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const as = (user: string, words: readonly string[], env: Record<string, string> = {}): Promise<CommandResult> =>
  cluster.run(words, { env: { ...cluster.environment(user), ...env } });

/**
 * Starts a web server that requests authentication, as another user's program on a node can. Returns its address and the requests that
 * contained an identity.
 */
async function eavesdropper(): Promise<{ readonly address: string; readonly identities: readonly string[] }> {
  const identities: string[] = [];
  const server = createServer(({ method, url, headers }, response) => {
    const identity = headers.authorization ?? headers.cookie ?? headers['x-hadoop-delegation-token'] ?? /delegation=/.exec(url ?? '')?.[0];
    if (identity !== undefined) {
      identities.push(`${method} ${url} ${identity.slice(0, 16)}`);
    }
    response.writeHead(401, { 'WWW-Authenticate': 'Negotiate' }).end();
  });
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  // The listener has the name for which the cluster's HTTP principal is valid.
  return { address: (await listening(server)).replace(/^http:\/\/127\.0\.0\.1/, 'localhost'), identities };
}

test('no command sends the identity of its user to an address that a job chose', async () => {
  const { address, identities } = await eavesdropper();
  const [conf, web] = [path.join(folder, 'shared-history'), path.join(folder, 'web-client')];
  await cp(cluster.configuration, web, { recursive: true });
  const core = path.join(web, 'core-site.xml');
  const nameNode = cluster.nameNode.replace(/^http:/, 'webhdfs:');
  await writeFile(core, (await readFile(core, 'utf8')).replaceAll(String(cluster.defaultFs), nameNode));
  await cluster.hdfsMakeFolder('/shared', '755');
  await cluster.hdfsMakeFolder('/shared/history', '1777');
  await mkdir(conf);
  await writeFile(path.join(conf, 'tony-site.yaml'), "history: {dir: '/shared/history'}\n");
  const env = { TONY_CONF_DIR: conf };
  const text =
    'name: trap\nframework: none\nruntime: system\nroles: {worker: {instances: 1, resources: {memory: 256m}}}\nacls: {view: {users: [alice]}}\n';
  const file = path.join(folder, 'trap.yaml');
  await writeFile(file, `${text}command: 'true'\n`);
  const submitted = await as('bob', ['submit', '--conf', file], env);
  const id = /application_\d+_\d+/.exec(submitted.stdout)?.[0] ?? '';
  expect(id, submitted.stderr).not.toBe('');
  // The owner of a job can change its history.
  const final = `/shared/history/bob/${id}/final.json`;
  const status = JSON.parse((await cluster.hdfsRead(final)).toString()) as JobStatus;
  const forged = {
    ...status,
    summaryDir: `webhdfs://${address}/summaries`,
    checkpointDir: `webhdfs://${address}/checkpoints`,
    tasks: status.tasks.map((task) => ({ ...task, nodeHttp: address })),
  };
  await cluster.hdfsWrite(final, Buffer.from(JSON.stringify(forged)));
  for (const [name, permission] of [
    ['', '755'],
    [`/${id}`, '755'],
    [`/${id}/final.json`, '644'],
  ]) {
    const url = `${cluster.nameNode}/webhdfs/v1/shared/history/bob${name}?op=SETPERMISSION&permission=${permission}`;
    expect((await cluster.request(url, { method: 'PUT' })).status).toBe(200);
  }

  for (const victim of ['alice', cluster.administrator]) {
    await as(victim, ['logs', id], env);
    const described = await as(victim, ['describe', id], env);
    expect(described.stdout, described.stderr).toContain(`webhdfs://${address}/checkpoints`);
    const board = cluster.startCommand(['tensorboard', id, '--user', 'bob', '--no-open'], {
      env: { ...cluster.environment(victim), ...env, HADOOP_CONF_DIR: web },
    });
    const [, url = ''] = await board.output(/^tensorboard: (\S+)$/m);
    const [base = '', token = ''] = url.split('?token=');
    const page = await fetch(`${base}tony/api/scalars`, { headers: { authorization: `Bearer ${token}` } });
    expect(await page.text()).toContain('only file systems that the Hadoop configuration names');
    board.signal('SIGINT');
    await board.result;
  }
  for (const more of [
    `data: {x: 'webhdfs://${address}/x'}`,
    `checkpoint: {dir: 'webhdfs://${address}/x'}`,
    `tensorboard: {logdir: 'webhdfs://${address}/x'}`,
    `env: {X: 'webhdfs://${address}/x'}`,
  ]) {
    await writeFile(file, `${text}command: 'true'\n${more}\n`);
    for (const words of [['--dry-run'], []]) {
      const refused = await as('alice', ['submit', '--conf', file, ...words], env);
      expect(refused.stderr).toContain(`The job uses webhdfs://${address}/x, but the Hadoop configuration does not name this file system.`);
      expect(refused.exitCode).toBe(2);
    }
  }
  expect(identities).toEqual([]);
});
