import { expect, test } from 'vitest';
import { noneLeft, TestCluster, USER, until, useCluster } from './harness.ts';

const cluster = useCluster();

async function submit(command: string, memoryMb = 128): Promise<string> {
  const post = async (path: string, body: unknown) => {
    const answer = await fetch(`${cluster.resourceManager}/ws/v1/cluster/apps${path}?user.name=${USER}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    if (!answer.ok) {
      throw new Error(await answer.text());
    }
    return answer;
  };
  const id = ((await (await post('/new-application', {})).json()) as { 'application-id': string })['application-id'];
  await post('', {
    'application-id': id,
    'application-name': 'a test of the cluster',
    queue: 'gpu',
    'max-app-attempts': 1,
    'am-container-spec': { commands: { command } },
    resource: { memory: memoryMb, vCores: 1 },
  });
  return id;
}

async function killApplication(id: string, user: string): Promise<number> {
  const answer = await fetch(`${cluster.resourceManager}/ws/v1/cluster/apps/${id}/state?user.name=${user}`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: '{"state":"KILLED"}',
  });
  return answer.status;
}

test('the test cluster finds an application’s processes, and rejects another user’s kill', async () => {
  const id = await submit('cd / && env -i sleep 600');
  const found = await until(
    async () => {
      const all = await cluster.containers(id);
      return all.some(({ command }) => command === 'sleep 600') && all;
    },
    { describe: () => cluster.application(id) },
  );
  expect(found.every(({ containerId }) => containerId?.endsWith('_000001'))).toBe(true);
  expect(await killApplication(id, 'bob')).toBe(403);
  expect(await killApplication(id, USER)).toBe(202);
  expect(await cluster.ended(id)).toMatchObject({ state: 'KILLED', user: USER });
  await noneLeft(cluster, id);
});

test('YARN kills a container over its memory limit with exit status -104', async () => {
  const id = await submit(`node -e 'const held = Buffer.alloc(4e8, 1); setTimeout(() => held, 60000)'`);
  expect(await cluster.ended(id)).toMatchObject({ state: 'FAILED', diagnostics: expect.stringContaining('exitCode: -104') });
});

test('the error for a port in use names the process that uses the port', async () => {
  await cluster.up();
  const second = new TestCluster(cluster.offset + 10);
  // At an offset that is ten higher, the ResourceManager's ports collide with the NodeManager's.
  expect(await second.portsInUse(['resourcemanager'])).toEqual(
    expect.arrayContaining([expect.objectContaining({ port: cluster.ports.nodemanager1.localizer })]),
  );
  await expect(second.requirePorts(['resourcemanager'])).rejects.toThrow(
    /port \d+ \(resourcemanager \w+\) is in use by process \d+ .*java.*--port-offset/,
  );
});
