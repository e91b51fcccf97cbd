import { stat } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { CheckpointStore } from '../../contract/checkpoint/checkpoint-store.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { fileUri } from '../../storage/uri.ts';
import { doneOf, type Gang, type GangWishes, stepsOf, useGangs } from '../testing/gang.ts';

const gangs = useGangs();

function startGang(wishes: GangWishes, staleness: number | null = null): Promise<Gang> {
  return gangs.start({ servers: 2, strategy: { type: 'parameter-server', staleness }, ...wishes });
}

test('workers and servers of one program train together; servers run until they are stopped', async () => {
  const { workers, servers } = await startGang({ name: 'together' }, 2);
  expect(await Promise.all(workers.map(({ exited }) => exited))).toEqual([0, 0]);
  expect(doneOf(workers[0])).toMatchObject({ steps: 40 });
  expect(doneOf(workers[1])).toEqual(doneOf(workers[0]));
  expect(await workers[0]?.reports()).toContainEqual({ type: 'checkpoint', step: 40 });
  for (const worker of workers) {
    expect((await worker.reports()).filter(({ type }) => type === 'peer-lost')).toEqual([]);
  }
  for (const server of servers) {
    expect(server.child.exitCode).toBeNull();
    expect(server.events).toEqual([]);
    server.child.kill('SIGTERM');
    expect(await server.exited).toBe(0);
  }
});

test.each([0, 1])('a killed worker %i is replaced alone, and the other worker reports no loss', async (rank) => {
  const { workers, replace } = await startGang({ name: `replaced-${rank}`, stepMs: 40, hangAt: 'step-12', hanging: [rank] });
  const [dying, other] = [workers[rank], workers[1 - rank]];
  await expect.poll(() => dying?.events, { timeout: 60_000 }).toContainEqual({ event: 'hangs' });
  dying?.child.kill('SIGKILL');
  const replacement = await replace(rank);
  expect(await Promise.all([replacement.exited, other?.exited])).toEqual([0, 0]);
  // The replacement repeats only a few steps: workers report their position every 200 ms, and each step takes 40 ms.
  const [first = 0] = stepsOf(replacement);
  expect(first).toBeGreaterThan(5);
  expect(first).toBeLessThanOrEqual(13);
  expect(doneOf(replacement)).toEqual(doneOf(other));
  expect((await other?.reports())?.filter(({ type }) => type === 'peer-lost')).toEqual([]);
});

test('a worker reports a killed server, and the next generation resumes from the checkpoint', async () => {
  const { workers, servers } = await startGang({ name: 'server-killed', hangAt: 'step-12', hanging: [0, 1] });
  for (const worker of workers) {
    await expect.poll(() => worker.events, { timeout: 60_000 }).toContainEqual({ event: 'hangs' });
  }
  await expect.poll(() => workers[0]?.reports()).toContainEqual({ type: 'checkpoint', step: 10 });
  servers[1]?.child.kill('SIGKILL');
  for (const worker of workers) {
    // In reports, servers are numbered after the last rank.
    await expect.poll(() => worker.reports()).toContainEqual({ type: 'peer-lost', taskRank: 3 });
    worker.child.kill('SIGUSR2');
  }
  expect(await Promise.all(workers.map(({ exited }) => exited))).toEqual([1, 1]);
  for (const worker of workers) {
    expect(worker.stderr()).toMatch(/parameter server 1 (closed|broke) the connection( \(\w+\))?; waiting for the job to replace it/);
    expect(worker.stderr()).toContain('TonyError: parameter server 1');
  }

  const again = await startGang({ name: 'server-killed', generation: 2 });
  expect(await Promise.all(again.workers.map(({ exited }) => exited))).toEqual([0, 0]);
  expect(stepsOf(again.workers[0])[0]).toBe(11);
  expect(doneOf(again.workers[0])).toMatchObject({ steps: 40 });
  expect(doneOf(again.workers[1])).toEqual(doneOf(again.workers[0]));
});

describe('if the chief is killed after its last step, its replacement takes no further step', () => {
  test.each([
    ['killed before it committed the last checkpoint', 'before-commit'],
    ['killed before it reported the committed last checkpoint', 'after-commit'],
    ['killed after it finished training', 'end'],
  ] as const)('%s', async (_, hangAt) => {
    const { workers, replace } = await startGang({ name: `end-${hangAt}`, servers: 1, hangAt });
    const [chief, other] = workers;
    await expect.poll(() => chief?.events, { timeout: 60_000 }).toContainEqual({ event: 'hangs' });
    const dir = path.join(gangs.folder, `end-${hangAt}`, 'checkpoints');
    const before = hangAt === 'before-commit' ? null : await stat(path.join(dir, 'step-40'));
    chief?.child.kill('SIGKILL');
    const replacement = await replace(0);
    expect(await Promise.all([replacement.exited, other?.exited])).toEqual([0, 0]);
    expect(stepsOf(replacement)).toEqual([]);
    expect(doneOf(replacement)).toMatchObject({ steps: 40 });
    expect(doneOf(other)).toEqual(doneOf(replacement));
    for (const worker of [replacement, other]) {
      expect((await worker?.reports())?.filter(({ type }) => type === 'peer-lost')).toEqual([]);
    }
    const store = new CheckpointStore(new FileStorage(), fileUri(dir));
    expect((await store.newest(() => {}))?.position).toMatchObject({ step: 40, final: true });
    if (before !== null) {
      expect((await stat(path.join(dir, 'step-40'))).ino).toBe(before.ino);
    }
  });
});
