import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { localPaths } from '../../client/files/local-layout.ts';
import { isRecord } from '../../platform/is-record.ts';
import { runCommand } from '../command.ts';
import { jsonLines, temporaryFolder, until } from '../harness.ts';

/** What a later version may add to any object that this version reads: docs/job-api.md promises that versions only add fields and kinds. */
const LATER = { addedLater: { values: [1, 'two', null] } };

/** Adds fields to all objects of an answer, and an event of a type that this version does not know. */
function asOfALaterVersion(value: unknown): unknown {
  if (Array.isArray(value)) {
    const events = value.some((each) => isRecord(each) && each.type === 'master-registered');
    return [...value.map(asOfALaterVersion), ...(events ? [{ at: new Date().toISOString(), type: 'invented-later', message: 'new' }] : [])];
  }
  return isRecord(value)
    ? {
        ...Object.fromEntries(Object.entries(value).map(([key, each]) => [key, key === 'metrics' ? each : asOfALaterVersion(each)])),
        ...LATER,
      }
    : value;
}

const PROGRAM = `
import time, tony
for step in range(1, 10_000):
    tony.report(loss=1 / step, step=step)
    print(f"step {step}", flush=True)
    time.sleep(0.2)
`;

test('commands follow, show and kill a running job of a later version', async () => {
  const folder = await temporaryFolder();
  await writeFile(path.join(folder, 'train.py'), PROGRAM);
  const file = path.join(folder, 'job.yaml');
  await writeFile(file, 'name: later\nframework: none\nruntime: system\ncommand: python3 train.py\nroles: {worker: {instances: 2}}\n');
  const root = path.join(folder, 'jobs');
  const run = (...words: string[]) => runCommand(words, { env: { TONY_LOCAL_DIR: root, HADOOP_CONF_DIR: undefined } });
  const id = /local_\d+_\d+/.exec((await run('submit', '--local', file, '--detach')).stdout)?.[0] ?? '';
  onTestFinished(async () => void (await run('kill', id, '--yes')));
  const status = async () => jsonLines((await run('status', id, '--output', 'json')).stdout)[0];
  await until(async () => Number((await status())?.step) > 2, { describe: status });
  const shape = (value: unknown): unknown =>
    Array.isArray(value)
      ? value.map(shape)
      : isRecord(value)
        ? Object.fromEntries(Object.entries(value).map(([key, each]) => [key, shape(each)]))
        : typeof value;
  const own = await status();

  const { masterAddress } = localPaths(root, id);
  const address = JSON.parse(await readFile(masterAddress, 'utf8')) as { http: string };
  const seen = new Set<string>();
  const proxy = createServer((request, response) => {
    const forward = async () => {
      const answer = await fetch(`${address.http}${request.url}`, { headers: { authorization: request.headers.authorization ?? '' } });
      const body = await answer.text();
      const isJson = answer.headers.get('content-type')?.includes('json') === true;
      seen.add(new URL(request.url ?? '', address.http).pathname);
      response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? 'text/plain' });
      response.end(isJson ? JSON.stringify(asOfALaterVersion(JSON.parse(body))) : body);
    };
    forward().catch((error: Error) => response.destroy(error));
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void proxy.close().closeAllConnections());
  await writeFile(masterAddress, JSON.stringify({ ...address, http: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}` }));

  const later = await status();
  expect(seen).toContain('/tony/api/v1/job');
  expect(shape(later)).toEqual(shape(own));
  expect(later).toMatchObject({ state: 'running', tasks: [{ state: 'running' }, { state: 'running' }] });
  expect((await run('status', id)).stdout).toMatch(/^worker:1 +running/m);
  expect((await run('describe', id)).stdout).toMatch(/^ {2}state +running$/m);
  const events = await run('events', id);
  expect(events).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/generation-started[\s\S]*invented-later +new/) });
  expect((await run('logs', id, 'worker:0', '--tail', '1')).stdout).toMatch(/^step \d+$/m);
  expect((await run('list', '--local')).stdout).toMatch(new RegExp(`^${id} +later .*running`, 'm'));
  expect(await run('kill', id, '--yes')).toMatchObject({ exitCode: 0, stdout: expect.stringContaining(`killed ${id}`) });
  expect(await status()).toMatchObject({ state: 'killed' });
});
