import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { type Changes, HandmadeJobs } from '../handmade-job.ts';
import { jsonLines, USER, until, useOwnCluster } from '../harness.ts';
import { ALLOWED, EVERYBODYS, IN_ANOTHER_NAME, SITE, TOO_MANY, withHadoop } from '../quota-bypass-cases.ts';

/**
 * Attempts of quota-bypass.test.ts for which the ApplicationMaster needs the cluster's configuration or the user's name, on a cluster with
 * Kerberos and HTTPS, where NodeManagers serve their configuration only to clients with a ticket. Jobs run at the same time, because each
 * one needs an ApplicationMaster.
 */

vi.setConfig({ maxConcurrency: 8 });

const cluster = useOwnCluster('kerberos+tls', { core: { 'hadoop.rpc.protection': 'integrity' } });
/** An address at which the user's server can listen, and no daemon does. */
const ELSEWHERE = '127.0.0.2';
let folder: string;
let handmade: HandmadeJobs;
/** A server of the user. It closes a connection as soon as it receives data. */
let elsewhere: Server;
let connections = 0;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-bypass-test-'));
  await cluster.hdfsMakeFolder('/apps/tony-ts', '755');
  await cluster.hdfsWrite('/apps/tony-ts/site.yaml', Buffer.from(SITE));
  for (const everybodys of EVERYBODYS) {
    await cluster.hdfsMakeFolder(everybodys, '777');
  }
  elsewhere = createServer((socket) => {
    connections += 1;
    socket.on('error', () => {});
    socket.once('data', () => socket.destroy());
  });
  await new Promise<void>((resolve) => elsewhere.listen(0, ELSEWHERE, resolve));
  const file = path.join(folder, 'job.yaml');
  await writeFile(file, `name: bypass\nframework: none\nruntime: system\ncommand: 'true'\n${ALLOWED}`);
  const { stdout, stderr } = await cluster.run(['submit', '--conf', file, '--detach']);
  const [id] = /application_\d+_\d+/.exec(stdout) ?? [];
  if (id === undefined) {
    throw new Error(stderr);
  }
  expect(await cluster.ended(id)).toMatchObject({ finalStatus: 'SUCCEEDED' });
  handmade = await HandmadeJobs.like(id, USER, cluster);
});
afterAll(async () => {
  elsewhere.close();
  await rm(folder, { recursive: true, force: true });
});

const address = (): string => `${ELSEWHERE}:${(elsewhere.address() as AddressInfo).port}`;
const otherFileSystem = (): Record<string, string> => ({
  'fs.defaultFS': 'hdfs://elsewhere',
  'dfs.nameservices': 'elsewhere',
  'dfs.namenode.rpc-address.elsewhere': address(),
  'dfs.namenode.https-address.elsewhere': address(),
});

describe.concurrent('a job submitted by hand', () => {
  test('succeeds when it is within all limits', async () => {
    expect(await cluster.ended(await handmade.submit({}))).toMatchObject({ state: 'FINISHED', finalStatus: 'SUCCEEDED' });
  });

  test.each(IN_ANOTHER_NAME)('fails the ApplicationMaster’s check %s', async (_, changes, expected) => {
    const end = await cluster.ended(await handmade.submit(changes));
    expect(end).toMatchObject({ state: 'FINISHED', finalStatus: 'FAILED', diagnostics: expect.stringMatching(expected) });
  });

  test.each<[string, () => Changes]>([
    ['another file system', () => ({ job: withHadoop(otherFileSystem()) })],
    [
      'another file system, and another node in its environment',
      () => ({
        job: withHadoop(otherFileSystem()),
        environment: { NM_HOST: ELSEWHERE, NM_HTTP_PORT: String((elsewhere.address() as AddressInfo).port) },
      }),
    ],
    ['another ResourceManager beside the real one', () => ({ job: withHadoop({ ...otherFileSystem(), ...highlyAvailable() }) })],
  ])('fails the ApplicationMaster’s check with %s', async (_, changes) => {
    const end = await cluster.ended(await handmade.submit(changes()));
    expect(end).toMatchObject({ state: 'FINISHED', finalStatus: 'FAILED', diagnostics: expect.stringMatching(TOO_MANY) });
  });
});

/** A list of two ResourceManagers, of which the first one is the user's server. */
function highlyAvailable(): Record<string, string> {
  const { scheduler, client, http } = cluster.ports.resourcemanager;
  return {
    'yarn.resourcemanager.ha.enabled': 'true',
    'yarn.resourcemanager.ha.rm-ids': 'false,real',
    'yarn.resourcemanager.scheduler.address.false': address(),
    'yarn.resourcemanager.address.false': address(),
    'yarn.resourcemanager.webapp.https.address.false': address(),
    'yarn.resourcemanager.scheduler.address.real': `localhost:${scheduler}`,
    'yarn.resourcemanager.address.real': `localhost:${client}`,
    'yarn.resourcemanager.webapp.https.address.real': `localhost:${http}`,
  };
}

test('a client that requires encrypted RPC rejects daemons that only sign it', async () => {
  const conf = path.join(folder, 'conf');
  await cp(cluster.configuration, conf, { recursive: true });
  const file = path.join(conf, 'core-site.xml');
  const text = await readFile(file, 'utf8');
  expect(text).toContain('<value>integrity</value>');
  await writeFile(file, text.replace('<value>integrity</value>', '<value>privacy</value>'));
  const findings = async (env: Record<string, string>) => jsonLines((await cluster.run(['doctor', '--output', 'json'], { env })).stdout);
  expect(await findings({})).toContainEqual(expect.objectContaining({ name: 'identity', state: 'ok', message: 'alice, in research' }));
  const refused = expect.stringMatching(/offers the protection auth-int, but hadoop\.rpc\.protection requires at least auth-conf/);
  const found = await findings({ HADOOP_CONF_DIR: conf });
  for (const name of ['identity', 'queue access']) {
    expect(found).toContainEqual(expect.objectContaining({ name, message: refused }));
  }
});

test('a job with another ResourceManager in job.json does not start', async () => {
  const before = connections;
  const own = { 'yarn.resourcemanager.scheduler.address': address(), 'yarn.resourcemanager.webapp.https.address': address() };
  const id = await handmade.submit({ job: withHadoop({ ...otherFileSystem(), ...own }) });
  await until(async () => connections > before, { describe: 'the ApplicationMaster connects to the user’s server' });
  expect(await cluster.application(id)).toMatchObject({ state: 'ACCEPTED' });
  await cluster.killApplication(id);
});
