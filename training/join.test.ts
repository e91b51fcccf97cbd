import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { fileUri } from '../storage/uri.ts';
import type { Report, TaskContext } from './task-context.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
let folder: string;
const children: ChildProcess[] = [];

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'join-'));
  await symlink(path.join(ROOT, 'node_modules'), path.join(folder, 'node_modules'));
  await build({
    entryPoints: [path.join(ROOT, 'training/testing/program.ts')],
    bundle: true,
    platform: 'node',
    format: 'esm',
    external: ['@tensorflow/*'],
    outfile: path.join(folder, 'program.mjs'),
    logLevel: 'error',
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
  readonly worldSize: number;
  readonly generation?: number;
  readonly evaluator?: boolean;
  readonly stepMs?: number;
  readonly name: string;
  /** As under `npm run`: the inherited socket does not reach the program. */
  readonly loseDescriptor?: boolean;
  readonly backend?: string;
}

/** Node offers the descriptor of a server, and a socket that is bound but does not listen, nowhere else. */
interface Bound {
  readonly fd: number;
  getsockname(into: { port?: number }): void;
  close(): void;
}

/** What the executor does: binds a port, and hands the socket on. */
async function bind(listening: boolean): Promise<{ port: number; fd: number; close: () => void }> {
  if (listening) {
    const server = createServer().listen(0, '127.0.0.1') as Server & { _handle: { fd: number } };
    await once(server, 'listening');
    return { port: (server.address() as { port: number }).port, fd: server._handle.fd, close: () => server.close() };
  }
  const net = (await import('node:net')) as unknown as { _createServerHandle(address: string, port: number, family: 4): Bound };
  const handle = net._createServerHandle('127.0.0.1', 0, 4);
  const address: { port?: number } = {};
  handle.getsockname(address);
  return { port: address.port as number, fd: handle.fd, close: () => handle.close() };
}

async function start(gang: Gang): Promise<Task[]> {
  const { worldSize, generation = 1 } = gang;
  const bound = await Promise.all(Array.from({ length: worldSize }, () => bind(gang.loseDescriptor !== true)));
  const members = bound.map(({ port }, rank) => ({ role: 'worker', index: rank, rank, host: '127.0.0.1', port }));
  const ringKey = randomBytes(32).toString('base64');
  const tasks = [...members.map(({ role, index }) => ({ role, index })), ...(gang.evaluator ? [{ role: 'evaluator', index: 0 }] : [])];
  const running = await Promise.all(
    tasks.map(async ({ role, index }) => {
      const isRanked = role === 'worker';
      const port = bound[index];
      const name = path.join(folder, `${gang.name}-${role}-${index}-${generation}`);
      const context: TaskContext = {
        version: 1,
        applicationId: 'application_1_0001',
        jobName: gang.name,
        role,
        index,
        roleSize: isRanked ? worldSize : 1,
        rank: isRanked ? index : null,
        worldSize,
        generation,
        members,
        listener: isRanked && port !== undefined ? { fd: 3, host: '127.0.0.1', port: port.port } : null,
        ringKey,
        strategy: { type: 'all-reduce', wire: 'float32' },
        parameterServers: [],
        checkpoint: { dir: fileUri(path.join(folder, gang.name, 'checkpoints')), everySteps: 5, keep: 2 },
        summaryDir: fileUri(path.join(folder, gang.name, 'summaries')),
        outputDir: fileUri(path.join(folder, gang.name, 'output')),
        data: {},
        user: 'someone',
        hadoop: null,
        reportFile: `${name}.reports`,
        services: null,
      };
      await writeFile(`${name}.json`, JSON.stringify(context));
      const passed = isRanked && gang.loseDescriptor !== true ? (port?.fd ?? 'ignore') : 'ignore';
      const child = spawn(process.execPath, [path.join(folder, 'program.mjs')], {
        stdio: ['ignore', 'pipe', 'pipe', passed],
        env: { ...process.env, TONY_TASK_FILE: `${name}.json`, TONY_BACKEND: gang.backend ?? 'cpu', STEP_MS: String(gang.stepMs ?? 0) },
      });
      return watch(child, `${name}.reports`);
    }),
  );
  if (gang.loseDescriptor !== true) {
    for (const port of bound) {
      port.close();
    }
  }
  return running;
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
    child,
    events,
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

test('two workers train together and an evaluator follows to the end, each exiting by itself', { timeout: 60_000 }, async () => {
  const [first, second, evaluator] = await start({ name: 'together', worldSize: 2, evaluator: true });
  expect(await Promise.all([first?.exited, second?.exited, evaluator?.exited])).toEqual([0, 0, 0]);
  expect(first?.events[0]).toEqual({ event: 'joined', rank: 0, worldSize: 2, backend: 'cpu' });
  expect(done(first)).toMatchObject({ steps: 40 });
  expect(done(second)).toEqual(done(first));
  const seen = evaluator?.events.filter(({ event }) => event === 'checkpoint') ?? [];
  expect(seen.at(-1)).toEqual({ event: 'checkpoint', step: 40, final: true });
  const reports = (await first?.reports()) ?? [];
  expect(reports.at(-1)).toEqual({ type: 'checkpoint', step: 40 });
  expect(await evaluator?.reports()).toContainEqual({ type: 'progress', step: 40, metrics: { 'test/loss': expect.any(Number) } });
  for (const task of [first, second]) {
    expect((await task?.reports())?.filter(({ type }) => type === 'peer-lost')).toEqual([]);
  }
  expect((await readdir(path.join(folder, 'together', 'summaries'))).sort()).toEqual(['evaluator', 'train']);
  expect((await readdir(path.join(folder, 'together', 'checkpoints'))).sort()).toEqual(['.pending', expect.any(String), 'step-40']);
});

test('a killed worker is reported by the other, and the next generation ends as if nothing had happened', { timeout: 60_000 }, async () => {
  const undisturbed = await start({ name: 'undisturbed', worldSize: 2 });
  await Promise.all(undisturbed.map(({ exited }) => exited));

  const [first, second] = (await start({ name: 'disturbed', worldSize: 2, stepMs: 30 })) as [Task, Task];
  await vi.waitFor(() => expect(first.events).toContainEqual({ event: 'step', step: 13 }), { timeout: 20_000 });
  second.child.kill('SIGKILL');
  await vi.waitFor(async () => expect(await first.reports()).toContainEqual({ type: 'peer-lost', rank: 1 }), { timeout: 10_000 });
  expect(first.child.exitCode).toBeNull();
  expect(first.stderr()).toMatch(/rank 1 (broke|closed) the connection.*; waiting for the job to replace it/);
  // Nobody replaces it: after the grace the call throws.
  expect(await first.exited).toBe(1);
  expect(first.stderr()).toContain('TonyError: rank 1');

  const again = (await start({ name: 'disturbed', worldSize: 2, generation: 2 })) as [Task, Task];
  expect(await Promise.all(again.map(({ exited }) => exited))).toEqual([0, 0]);
  const from = Number(again[0].events.find(({ event }) => event === 'step')?.step);
  expect(from).toBeGreaterThanOrEqual(11);
  expect(done(again[0])).toEqual(done(undisturbed[0]));
  expect(done(again[1])).toEqual(done(undisturbed[0]));
  expect(existsSync(path.join(folder, 'disturbed', 'checkpoints', '.pending', 'application_1_0001', 'generation-1'))).toBe(true);
});

test('a program that has lost the inherited socket listens on the announced port, though others still hold it', {
  timeout: 60_000,
}, async () => {
  const tasks = await start({ name: 'npm', worldSize: 2, loseDescriptor: true });
  expect(await Promise.all(tasks.map(({ exited }) => exited))).toEqual([0, 0]);
});

test('without a job it is a world of one', { timeout: 60_000 }, async () => {
  const child = spawn(process.execPath, [path.join(folder, 'program.mjs')], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, TONY_BACKEND: 'wasm', TONY_TASK_FILE: '' },
  });
  const task = watch(child, '/nonexistent');
  expect(await task.exited).toBe(0);
  expect(task.events[0]).toEqual({ event: 'joined', rank: 0, worldSize: 1, backend: 'wasm' });
  expect(done(task)).toMatchObject({ steps: 80 });
});

test('a task file that is none gives a clear error', { timeout: 60_000 }, async () => {
  const file = path.join(folder, 'bad.json');
  await writeFile(file, JSON.stringify({ version: 1, role: 3 }));
  const child = spawn(process.execPath, [path.join(folder, 'program.mjs')], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, TONY_TASK_FILE: file },
  });
  const task = watch(child, '/nonexistent');
  expect(await task.exited).toBe(1);
  expect(task.stderr()).toMatch(/TonyError: .*bad\.json: \w+: /);
});
