import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { fileUri } from '../../storage/uri.ts';
import type { Report, TaskContext } from '../task-context.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
let folder: string;
const children: ChildProcess[] = [];

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'servers-'));
  await symlink(path.join(ROOT, 'node_modules'), path.join(folder, 'node_modules'));
  await build({
    entryPoints: [path.join(ROOT, 'training/testing/program.ts')],
    ...{ bundle: true, platform: 'node', format: 'esm', external: ['@tensorflow/*'], logLevel: 'error' },
    outfile: path.join(folder, 'program.mjs'),
  });
});
afterEach(() => {
  for (const child of children.splice(0)) {
    child.kill('SIGKILL');
  }
});
afterAll(() => rm(folder, { recursive: true, force: true }));

interface Task {
  readonly child: ChildProcess;
  readonly events: Record<string, unknown>[];
  readonly reports: () => Promise<Report[]>;
  readonly stderr: () => string;
  readonly exited: Promise<number | null>;
}

interface Gang {
  readonly workers: Task[];
  readonly servers: Task[];
  /** Another process in place of a worker, in the same generation. */
  replace(rank: number): Promise<Task>;
}

interface Wishes {
  readonly name: string;
  readonly generation?: number;
  readonly staleness?: number | null;
  readonly stepMs?: number;
}

/** What executors do: they bind the ports, and hand the sockets on. */
async function startGang({ name, generation = 1, staleness = null, stepMs = 0 }: Wishes): Promise<Gang> {
  const places = [...[0, 1].map((index) => ({ role: 'worker', index })), ...[0, 1].map((index) => ({ role: 'ps', index }))];
  const bound = await Promise.all(
    places.map(async () => {
      const server = createServer().listen(0, '127.0.0.1') as Server & { _handle: { fd: number } };
      await once(server, 'listening');
      return { port: (server.address() as { port: number }).port, fd: server._handle.fd, close: () => server.close() };
    }),
  );
  const ringKey = randomBytes(32).toString('base64');
  const members = places.map(({ role, index }, at) => {
    return { role, index, rank: role === 'worker' ? index : null, host: '127.0.0.1', port: bound[at]?.port ?? 0 };
  });
  let started = 0;
  const startTask = async ({ role, index, rank, port }: (typeof members)[number], fd: number | null): Promise<Task> => {
    started++;
    const file = path.join(folder, `${name}-${generation}-${started}`);
    const context: TaskContext = {
      ...{ version: 1, applicationId: 'application_1_0001', jobName: name, role, index, rank, generation, members, ringKey },
      ...{ roleSize: 2, worldSize: 2, data: {}, user: 'someone', hadoop: null, services: null, reportFile: `${file}.reports` },
      listener: { fd: 3, host: '127.0.0.1', port },
      strategy: { type: 'parameter-server', staleness },
      parameterServers: members.filter((member) => member.role === 'ps').map((member) => ({ host: member.host, port: member.port })),
      checkpoint: { dir: fileUri(path.join(folder, name, 'checkpoints')), everySteps: 5, keep: 2 },
      summaryDir: fileUri(path.join(folder, name, 'summaries')),
      outputDir: fileUri(path.join(folder, name, 'output')),
    };
    await writeFile(`${file}.json`, JSON.stringify(context));
    const child = spawn(process.execPath, [path.join(folder, 'program.mjs')], {
      stdio: ['ignore', 'pipe', 'pipe', fd ?? 'ignore'],
      env: { ...process.env, TONY_TASK_FILE: `${file}.json`, TONY_BACKEND: 'cpu', STEP_MS: String(stepMs) },
    });
    return watch(child, `${file}.reports`);
  };
  const tasks = await Promise.all(members.map((member, at) => startTask(member, bound[at]?.fd ?? null)));
  for (const { close } of bound) {
    close();
  }
  return {
    workers: tasks.slice(0, 2),
    servers: tasks.slice(2),
    replace: async (rank) => await startTask(members[rank] as (typeof members)[number], null),
  };
}

function watch(child: ChildProcess, reportFile: string): Task {
  children.push(child);
  const events: Record<string, unknown>[] = [];
  let [rest, stderr] = ['', ''];
  child.stdout?.on('data', (chunk: Buffer) => {
    const lines = (rest + chunk.toString()).split('\n');
    rest = lines.pop() ?? '';
    events.push(...lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as Record<string, unknown>));
  });
  child.stderr?.on('data', (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  return {
    ...{ child, events },
    stderr: () => stderr,
    exited: once(child, 'close').then(([code]) => code as number | null),
    reports: async () =>
      existsSync(reportFile)
        ? (await readFile(reportFile, 'utf8'))
            .trim()
            .split('\n')
            .map((line) => JSON.parse(line) as Report)
        : [],
  };
}

const done = (task: Task | undefined) => task?.events.find(({ event }) => event === 'done');
const stepsOf = (task: Task | undefined) => task?.events.filter(({ event }) => event === 'step').map(({ step }) => Number(step)) ?? [];

test('workers and servers of one program train together; servers serve until they are stopped', { timeout: 90_000 }, async () => {
  const { workers, servers } = await startGang({ name: 'together', staleness: 2 });
  expect(await Promise.all(workers.map(({ exited }) => exited))).toEqual([0, 0]);
  expect(done(workers[0])).toMatchObject({ steps: 40 });
  expect(done(workers[1])).toEqual(done(workers[0]));
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

test.each([0, 1])('worker %i is killed and replaced alone; the other notices nothing', { timeout: 90_000 }, async (rank) => {
  const { workers, replace } = await startGang({ name: `replaced-${rank}`, stepMs: 40 });
  const [dying, other] = [workers[rank], workers[1 - rank]];
  await vi.waitFor(() => expect(stepsOf(dying)).toContain(12), { timeout: 40_000 });
  dying?.child.kill('SIGKILL');
  const replacement = await replace(rank);
  expect(await Promise.all([replacement.exited, other?.exited])).toEqual([0, 0]);
  const [first = 0] = stepsOf(replacement);
  expect(first).toBeGreaterThan(5);
  expect(done(replacement)).toEqual(done(other));
  expect((await other?.reports())?.filter(({ type }) => type === 'peer-lost')).toEqual([]);
});

test('a killed server is reported, and the next generation goes on from the checkpoint', { timeout: 90_000 }, async () => {
  const { workers, servers } = await startGang({ name: 'server-killed', stepMs: 40 });
  await vi.waitFor(() => expect(stepsOf(workers[0])).toContain(12), { timeout: 40_000 });
  servers[1]?.child.kill('SIGKILL');
  for (const worker of workers) {
    // Servers are counted on from the two ranks.
    await vi.waitFor(async () => expect(await worker.reports()).toContainEqual({ type: 'peer-lost', rank: 3 }), { timeout: 10_000 });
    expect(worker.stderr()).toMatch(/parameter server 1 (closed|broke) the connection; waiting for the job to replace it/);
  }
  expect(await Promise.all(workers.map(({ exited }) => exited))).toEqual([1, 1]);
  expect(workers[0]?.stderr()).toContain('TonyError: parameter server 1');

  const again = await startGang({ name: 'server-killed', generation: 2 });
  expect(await Promise.all(again.workers.map(({ exited }) => exited))).toEqual([0, 0]);
  expect(stepsOf(again.workers[0])[0]).toBeGreaterThan(5);
  expect(done(again.workers[0])).toMatchObject({ steps: 40 });
  expect(done(again.workers[1])).toEqual(done(again.workers[0]));
});
