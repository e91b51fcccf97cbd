import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { nameNodesOf } from '../hadoop/configuration/file-systems/name-nodes.ts';
import { groupsOfUser } from '../hadoop/configuration/login/user-groups.ts';
import { configurationOfResourceManager } from '../hadoop/configuration/remote/remote-configuration.ts';
import type { ApplicationSubmission } from '../hadoop/yarn/application-submission.ts';
import { launchCommand } from '../hadoop/yarn/launch-script.ts';
import { ResourceManager } from '../hadoop/yarn/resource-manager.ts';
import { createStorage } from '../storage/create-storage.ts';
import type { Storage } from '../storage/storage.ts';
import { USER, until, useCluster } from './harness.ts';

const cluster = useCluster();
let configuration: HadoopConfiguration;
let resourceManager: ResourceManager;
let storage: Storage;
let endedApplication = '';

beforeAll(async () => {
  configuration = await HadoopConfiguration.fromEnvironment(cluster.environment());
  resourceManager = ResourceManager.of(configuration, USER);
  storage = createStorage({ hadoop: configuration, user: USER });
});
afterAll(() => {
  resourceManager.close();
  storage.close();
});

/**
 * Submits an application whose ApplicationMaster is a shell command. The application does not register, so YARN kills it after a timeout.
 */
function shell(applicationId: string, script: string, more: Partial<ApplicationSubmission> = {}): ApplicationSubmission {
  return {
    applicationId,
    name: 'a shell',
    type: 'TEST',
    queue: 'default',
    tags: ['rest', 'test'],
    memoryMb: 64,
    vcores: 1,
    nodeLabel: null,
    priority: 0,
    maxAttempts: 1,
    failureWindowMs: null,
    keepContainers: false,
    tokens: [],
    keepTokens: false,
    command: launchCommand(['/bin/bash', '-c', script], { stdout: 'stdout', stderr: 'stderr' }),
    environment: {},
    resources: [],
    secrets: new Map(),
    acls: null,
    ...more,
  };
}

test("an application's container receives its files, environment and secrets, and the ResourceManager reports its end", async () => {
  const { applicationId, maximum } = await resourceManager.newApplication();
  expect(maximum['yarn.io/gpu']).toBeGreaterThan(0);
  expect(maximum['memory-mb']).toBeGreaterThan(64);

  const uri = `hdfs:///user/${USER}/rest-test/input.txt`;
  await storage.write(uri, Buffer.from('from HDFS'));
  const input = await storage.stat(uri);
  const nasty = `{"a":{"b":"$HOME \`id\` \\\\ 'x' {{PWD}} }}"}}\n<LOG_DIR>`;
  const secret = randomBytes(40);
  const script = 'printf %s "$NASTY"; echo; cat in.txt; echo; base64 -w0 < "$HADOOP_TOKEN_FILE_LOCATION" >&2; sleep 600';
  await resourceManager.submit(
    shell(applicationId, script, {
      environment: { NASTY: nasty },
      resources: [
        {
          name: 'in.txt',
          uri: `${configuration.defaultFs}/user/${USER}/rest-test/input.txt`,
          type: 'file',
          visibility: 'application',
          size: input?.size ?? 0,
          timestamp: input?.modifiedAt ?? 0,
        },
      ],
      secrets: new Map([['tony.job', secret]]),
    }),
  );

  const [attempt] = await until(
    async () => {
      const attempts = await resourceManager.attempts(applicationId);
      return attempts[0]?.state === 'LAUNCHED' && attempts;
    },
    { describe: () => resourceManager.application(applicationId) },
  );
  const application = await resourceManager.application(applicationId);
  expect(application).toMatchObject({
    id: applicationId,
    name: 'a shell',
    user: USER,
    type: 'TEST',
    queue: 'root.default',
    state: 'ACCEPTED',
    finishedAt: null,
  });
  expect([...application.tags].sort()).toEqual(['rest', 'test']);
  expect(await resourceManager.applications({ user: USER, tags: ['rest'], states: ['ACCEPTED'] })).toMatchObject([{ id: applicationId }]);
  expect(await resourceManager.applications({ types: ['A TYPE THAT NOBODY HAS'] })).toEqual([]);
  // The application has not registered, so it has no pages.
  expect(await resourceManager.proxy(applicationId, 'tony/api/v1/job')).toBeNull();

  const log = async (file: string): Promise<string> => {
    const answer = await fetch(`http://${attempt?.nodeHttp}/ws/v1/node/containers/${attempt?.containerId}/logs/${file}?user.name=${USER}`);
    return answer.text();
  };
  await until(async () => (await log('stderr')).includes('SERUU'), { describe: () => log('stderr') });
  expect(await log('stdout')).toContain(`LogContents:\n${nasty}\nfrom HDFS\n`);
  const tokens = /LogContents:\n([A-Za-z0-9+/=]+)/.exec(await log('stderr'))?.[1] ?? '';
  expect(Buffer.from(tokens, 'base64').includes(secret)).toBe(true);

  await expect(ResourceManager.of(configuration, 'bob').kill(applicationId)).rejects.toMatchObject({
    code: 'RM_DENIED',
    message: expect.stringContaining('bob'),
  });
  // The response may still contain the state before the kill.
  expect(['ACCEPTED', 'KILLING', 'KILLED']).toContain(await resourceManager.kill(applicationId, 'the test is over'));
  const ended = await until(
    async () => {
      const now = await resourceManager.application(applicationId);
      return now.state === 'KILLED' && now;
    },
    { describe: () => resourceManager.application(applicationId) },
  );
  expect(ended).toMatchObject({ finalStatus: 'KILLED', diagnostics: expect.stringContaining('the test is over') });
  expect(ended.finishedAt).toBeGreaterThan(ended.startedAt);
  expect(await resourceManager.kill(applicationId)).toBe('KILLED');
  endedApplication = applicationId;
  await storage.remove(`hdfs:///user/${USER}/rest-test`);
});

test('the client reads the nodes and queues of the cluster', async () => {
  expect(await resourceManager.clusterInfo()).toMatchObject({ haState: 'ACTIVE', hadoopVersion: expect.stringMatching(/^3\./) });
  const nodes = await resourceManager.nodes();
  expect(nodes).toHaveLength(2);
  for (const node of nodes) {
    expect(node).toMatchObject({ state: 'RUNNING', nodeHttp: expect.stringMatching(/^localhost:\d+$/) });
    expect(node.total['yarn.io/gpu']).toBeGreaterThan(0);
  }
  expect(await resourceManager.nodes(['LOST'])).toEqual([]);
  expect((await resourceManager.queues()).map(({ path, state }) => [path, state])).toEqual([
    ['root.default', 'RUNNING'],
    ['root.gpu', 'RUNNING'],
  ]);
});

test("the ResourceManager's address alone yields the same configuration", async () => {
  const remote = await configurationOfResourceManager(cluster.resourceManager);
  expect(remote.freeze()).toEqual({ ...remote.freeze(), ...configuration.freeze() });
  expect(remote.resourceManagers).toEqual(configuration.resourceManagers);
  expect(nameNodesOf(remote, { scheme: 'hdfs', authority: remote.defaultFs.replace('hdfs://', '') })).toEqual([cluster.nameNode]);
});

test("the client reads a user's groups as the cluster resolves them", async () => {
  expect(await groupsOfUser(configuration, USER, 'bob')).toEqual(['research', 'students']);
  expect(await groupsOfUser(configuration, USER, 'nobody-knows-him')).toEqual([]);
  const nowhere = HadoopConfiguration.fromProperties({ 'fs.defaultFS': 'hdfs://127.0.0.1:9' });
  await expect(groupsOfUser(nowhere, USER, 'bob')).rejects.toMatchObject({ code: 'HDFS_UNREACHABLE' });
});

test('rejected requests report the cause', async () => {
  await expect(resourceManager.application('application_1_0001')).rejects.toMatchObject({
    code: 'JOB_NOT_FOUND',
    message: expect.stringContaining('application_1_0001'),
  });
  await expect(resourceManager.attempts('application_1_0001')).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' });
  await expect(resourceManager.kill('application_1_0001')).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' });
  expect(await resourceManager.proxy('application_1_0001', '')).toBeNull();
  const { applicationId } = await resourceManager.newApplication();
  await expect(resourceManager.submit(shell(applicationId, 'true', { memoryMb: 1_000_000 }))).rejects.toMatchObject({
    code: 'RM_DENIED',
    message: expect.stringContaining('memory'),
  });
});

test('the client waits for a killed ResourceManager, and fails when it does not return in time', async () => {
  await cluster.kill('resourcemanager');
  await expect(ResourceManager.of(configuration, USER, { maxWaitMs: 200 }).nodes()).rejects.toMatchObject({
    code: 'RM_UNREACHABLE',
    exitCode: 3,
  });
  // During its start, the ResourceManager does not know the application yet. The client must not report that the application does not
  // exist.
  const patient = ResourceManager.of(configuration, USER, { maxWaitMs: 60_000 });
  const found = Promise.all([patient.application(endedApplication), patient.clusterInfo()]);
  found.catch(() => {});
  await cluster.heal();
  expect(await found).toMatchObject([{ state: 'KILLED' }, { haState: 'ACTIVE' }]);
  patient.close();
});
