/** Runs program.ts as a job's tasks, in processes that are started the way an executor starts them. */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { afterAll, afterEach, beforeAll } from 'vitest';
import type { Strategy, WireSettings } from '../../conf/job.ts';
import type { Report, TaskContext } from '../../contract/process/task-context.ts';
import { fileUri } from '../../storage/uri.ts';
import { bindPort } from './bind-port.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** A line printed by program.ts. */
export type ProgramEvent = Readonly<Record<string, unknown>>;

export interface Task {
  readonly child: ChildProcess;
  readonly events: readonly ProgramEvent[];
  readonly exited: Promise<number | null>;
  stderr(): string;
  reports(): Promise<Report[]>;
}

export interface GangWishes {
  readonly name: string;
  readonly workers?: number;
  readonly servers?: number;
  readonly evaluator?: boolean;
  readonly generation?: number;
  readonly strategy?: Strategy;
  readonly wire?: WireSettings;
  /** Opens a proxy in front of a member that is listening on `port`. Returns the proxy's port, to which the other members connect. */
  readonly through?: (port: number, member: { readonly role: string; readonly index: number }) => Promise<number>;
  readonly stepMs?: number;
  /** The number of consecutive `fit` calls. Default: 1. */
  readonly phases?: 1 | 3;
  readonly graceMs?: number;
  /** True if the program must not inherit its socket, as happens under `npm run`. */
  readonly loseDescriptor?: boolean;
  /** The point at which a worker's first process hangs. program.ts describes the points. */
  readonly hangAt?: `step-${number}` | `fit-${number}/step-${number}` | 'before-commit' | 'after-commit' | 'end';
  /** The ranks that hang. Default: the chief. */
  readonly hanging?: readonly number[];
  /** The point at which workers call process.exit(0). program.ts describes the points. */
  readonly exitAt?: `step-${number}` | `closed-step-${number}` | 'train-end' | 'end';
  /** The ranks that exit. Default: all. */
  readonly exiting?: readonly number[];
}

export interface Gang {
  readonly workers: readonly Task[];
  readonly servers: readonly Task[];
  readonly evaluator: Task | undefined;
  /** Starts another process for a worker in the same generation. */
  replace(rank: number): Promise<Task>;
}

export const doneOf = (task: Task | undefined): ProgramEvent | undefined => task?.events.find(({ event }) => event === 'done');
export const stepsOf = (task: Task | undefined): number[] =>
  task?.events.filter(({ event }) => event === 'step').map(({ step }) => Number(step)) ?? [];

/** Builds the program before the first test of the file, and kills all processes after each test. */
export function useGangs(): Gangs {
  const gangs = new Gangs();
  beforeAll(() => gangs.open());
  afterEach(() => gangs.killAll());
  afterAll(() => gangs.close());
  return gangs;
}

export class Gangs {
  folder = '';
  readonly #tasks: Task[] = [];

  async open(): Promise<void> {
    this.folder = await mkdtemp(path.join(tmpdir(), 'gang-'));
    await symlink(path.join(ROOT, 'node_modules'), path.join(this.folder, 'node_modules'));
    await build({
      entryPoints: [path.join(ROOT, 'training/testing/program.ts')],
      ...{ bundle: true, platform: 'node', format: 'esm', external: ['@tensorflow/*'], logLevel: 'error' },
      outfile: path.join(this.folder, 'program.mjs'),
    });
  }

  async killAll(): Promise<void> {
    const tasks = this.#tasks.splice(0);
    for (const { child } of tasks) {
      child.kill('SIGKILL');
    }
    await Promise.all(tasks.map(({ exited }) => exited));
  }

  async close(): Promise<void> {
    await rm(this.folder, { recursive: true, force: true });
  }

  /** Runs the program with the given task file, or without one if the name is empty. */
  run(taskFile: string, env: Readonly<Record<string, string>> = {}, listener: number | null = null, reportFile = '/nonexistent'): Task {
    const child = spawn(process.execPath, [path.join(this.folder, 'program.mjs')], {
      stdio: ['ignore', 'pipe', 'pipe', listener ?? 'ignore'],
      env: { ...process.env, TONY_TASK_FILE: taskFile, TONY_BACKEND: 'cpu', ...env },
    });
    const task = watch(child, reportFile);
    this.#tasks.push(task);
    return task;
  }

  async start(wishes: GangWishes): Promise<Gang> {
    const { name, workers = 2, servers = 0, generation = 1, stepMs = 0, graceMs = 500, loseDescriptor = false } = wishes;
    const {
      hangAt,
      hanging = [0],
      exitAt = '',
      exiting,
      strategy = { type: 'all-reduce' },
      wire = { dtype: 'float32', security: 'none' },
    } = wishes;
    const places = [...placesOf('worker', workers), ...placesOf('ps', servers)];
    const bound = await Promise.all(places.map(() => bindPort(!loseDescriptor)));
    const members = places.map(({ role, index }, at) => {
      return { role, index, taskRank: role === 'worker' ? index : null, host: '127.0.0.1', port: bound[at]?.port ?? 0 };
    });
    const seen = await Promise.all(
      members.map(async (member) => ({ ...member, port: (await wishes.through?.(member.port, member)) ?? member.port })),
    );
    const common = {
      version: 1,
      ...{ jobId: 'application_1_0001', jobName: name, generation, taskWorldSize: workers, strategy, wire },
      ringKey: randomBytes(32).toString('base64'),
      checkpoint: { dir: fileUri(path.join(this.folder, name, 'checkpoints')), everySteps: 5, everyMs: null, keep: 2 },
      summaryDir: fileUri(path.join(this.folder, name, 'summaries')),
      outputDir: fileUri(path.join(this.folder, name, 'output')),
      ...{ data: {}, user: 'someone', hadoop: null, s3: null, services: null },
    } as const;
    let started = 0;
    const startTask = async (
      { role, index, taskRank, port }: (typeof members)[number],
      fd: number | null,
      env: Readonly<Record<string, string>> = {},
    ) => {
      started++;
      const file = path.join(this.folder, `${name}-${generation}-${started}`);
      const instances = role === 'worker' ? workers : role === 'ps' ? servers : 1;
      const listener = port === 0 ? null : { fd: 3, host: '127.0.0.1', port };
      const visible = seen.map((member, at) => (members[at]?.port === port ? { ...member, port } : member));
      const context: TaskContext = {
        ...common,
        members: visible,
        parameterServers: visible.filter((member) => member.role === 'ps').map(({ host, port: at }) => ({ host, port: at })),
        role,
        index,
        taskRank,
        instances,
        listener,
        reportFile: `${file}.reports`,
        checkpointOrder: null,
        memoryBytes: null,
      };
      await writeFile(`${file}.json`, JSON.stringify(context));
      return this.run(
        `${file}.json`,
        { STEP_MS: String(stepMs), GRACE_MS: String(graceMs), PHASES: String(wishes.phases ?? 1), ...env },
        fd,
        context.reportFile,
      );
    };
    const running = await Promise.all(
      members.map((member, at) => {
        const hangs = hangAt !== undefined && member.taskRank !== null && hanging.includes(member.taskRank);
        const exits = member.taskRank !== null && (exiting?.includes(member.taskRank) ?? true);
        const env = { ...(hangs && { HANG_AT: hangAt }), ...(exits && { EXIT_AT: exitAt }) };
        return startTask(member, loseDescriptor ? null : (bound[at]?.fd ?? null), env);
      }),
    );
    const evaluator =
      wishes.evaluator === true ? await startTask({ role: 'evaluator', index: 0, taskRank: null, host: '', port: 0 }, null) : undefined;
    // If the programs do not inherit sockets, the bound sockets stay open to reserve the ports.
    if (!loseDescriptor) {
      for (const { close } of bound) {
        close();
      }
    }
    return {
      ...{ workers: running.slice(0, workers), servers: running.slice(workers), evaluator },
      replace: async (rank) => await startTask(members[rank] as (typeof members)[number], null),
    };
  }
}

function placesOf(role: string, count: number): { readonly role: string; readonly index: number }[] {
  return Array.from({ length: count }, (_, index) => ({ role, index }));
}

function watch(child: ChildProcess, reportFile: string): Task {
  const events: ProgramEvent[] = [];
  let [rest, stderr] = ['', ''];
  child.stdout?.on('data', (chunk: Buffer) => {
    const lines = (rest + chunk.toString()).split('\n');
    rest = lines.pop() ?? '';
    events.push(...lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as ProgramEvent));
  });
  child.stderr?.on('data', (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  return {
    ...{ child, events },
    stderr: () => stderr,
    exited: once(child, 'close').then(([code]) => code as number | null),
    reports: async () => {
      if (!existsSync(reportFile)) {
        return [];
      }
      const lines = (await readFile(reportFile, 'utf8')).trim().split('\n');
      return lines.map((line) => JSON.parse(line) as Report);
    },
  };
}
