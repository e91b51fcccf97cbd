import { writeFile } from 'node:fs/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { type ContainerLogPiece, ContainerLogs, type LogOwner, type LogRange } from '../hadoop/logs/container-logs.ts';
import { applicationOf } from '../hadoop/rpc/application-id.ts';
import { launchCommand } from '../hadoop/yarn/launch-script.ts';
import { ResourceManager } from '../hadoop/yarn/resource-manager.ts';
import { USER, until, useCluster } from './harness.ts';

const cluster = useCluster();
let configuration: HadoopConfiguration;
let resourceManager: ResourceManager;
let logs: ContainerLogs;

beforeAll(async () => {
  configuration = await HadoopConfiguration.fromEnvironment(cluster.environment());
  resourceManager = ResourceManager.of(configuration, USER);
  logs = new ContainerLogs({ configuration, user: USER });
});
afterAll(() => {
  logs.close();
  resourceManager.close();
});

/** Binary data that spans several chunks of an aggregated log. */
const SCRIPT = `
printf 'first line\\n'; head -c 3000000 /dev/zero | tr '\\000' '\\377'; printf 'last line'
until [ -e go ]; do sleep 0.1; done
printf ', and more'`;
const size = 'first line\n'.length + 3_000_000 + 'last line'.length;

async function start(): Promise<LogOwner> {
  const { applicationId } = await resourceManager.newApplication();
  await resourceManager.submit({
    applicationId,
    name: 'logs',
    type: 'TEST',
    queue: 'default',
    tags: [],
    memoryMb: 64,
    vcores: 1,
    nodeLabel: null,
    priority: 0,
    maxAttempts: 1,
    failureWindowMs: null,
    keepContainers: false,
    tokens: [],
    keepTokens: false,
    command: launchCommand(['/bin/bash', '-c', SCRIPT], { stdout: 'tony.log', stderr: 'stderr' }),
    environment: {},
    resources: [],
    secrets: new Map(),
    acls: null,
  });
  const [attempt] = await until(
    async () => {
      const attempts = await resourceManager.attempts(applicationId);
      return attempts[0]?.state === 'LAUNCHED' && attempts;
    },
    { describe: () => resourceManager.application(applicationId) },
  );
  return { containerId: attempt?.containerId ?? '', nodeHttp: attempt?.nodeHttp ?? null, owner: USER };
}

test('the node of a running container and later HDFS return the same bytes of a log', async () => {
  const container = await start();
  const read = async (range: LogRange): Promise<ContainerLogPiece> => {
    const piece = await logs.read(container, 'tony.log', range);
    if (piece === null) {
      throw new Error('the container has no tony.log');
    }
    return piece;
  };
  await until(async () => (await read({ tail: 1 })).size === size, { describe: () => logs.files(container) });

  const check = async (complete: boolean, end: string): Promise<void> => {
    const whole = size + end.length;
    const all = await read({ offset: 0 });
    expect(all).toMatchObject({ offset: 0, size: whole, complete });
    expect(all.bytes.length).toBe(whole);
    expect(all.bytes.subarray(0, 12)).toEqual(Buffer.concat([Buffer.from('first line\n'), Buffer.from([255])]));
    expect(await read({ tail: end.length + 9 })).toEqual({
      bytes: Buffer.from(`last line${end}`),
      offset: size - 9,
      size: whole,
      complete,
    });
    expect(await read({ offset: size - 4, limit: 2 })).toEqual({
      bytes: Buffer.from('li'),
      offset: size - 4,
      size: whole,
      complete: false,
    });
    expect(await read({ offset: 3, limit: 5 })).toEqual({ bytes: Buffer.from('st li'), offset: 3, size: whole, complete: false });
    expect(await read({ offset: whole })).toMatchObject({ bytes: Buffer.alloc(0), offset: whole, complete });
    expect(await read({ offset: 1_000_000_000 })).toMatchObject({ bytes: Buffer.alloc(0), offset: whole });
    expect(await logs.read(container, 'stderr', { offset: 0 })).toEqual({ bytes: Buffer.alloc(0), offset: 0, size: 0, complete });
    expect(await logs.read(container, 'none', { tail: 10 })).toBeNull();
    expect(await logs.files(container)).toEqual(
      expect.arrayContaining([
        { name: 'tony.log', size: whole },
        { name: 'stderr', size: 0 },
      ]),
    );
  };
  await check(false, '');
  expect((await logs.files(container)).length).toBeGreaterThan(2);

  const application = applicationOf(container.containerId);
  // The pattern matches the shell itself, not the short `sleep` processes that the shell starts.
  const shell = (await cluster.containers(application)).find(({ command }) => !command.startsWith('sleep'));
  await writeFile(`/proc/${shell?.pid}/cwd/go`, '');
  await cluster.ended(application);
  await until(async () => (await logs.read({ ...container, nodeHttp: null }, 'tony.log', { tail: 1 })) !== null, {
    describe: () => resourceManager.application(application),
  });
  await check(true, ', and more');
  expect((await logs.read({ ...container, nodeHttp: null }, 'tony.log', { tail: 9 }))?.bytes.toString()).toBe(' and more'.slice(-9));
});

test('an unknown container has no logs', async () => {
  const nobody = { containerId: 'container_1_0001_01_000001', owner: USER };
  for (const nodeHttp of [null, `localhost:1`, (await resourceManager.nodes())[0]?.nodeHttp ?? null]) {
    expect(await logs.files({ ...nobody, nodeHttp })).toEqual([]);
    expect(await logs.read({ ...nobody, nodeHttp }, 'stdout', { offset: 0 })).toBeNull();
  }
});
