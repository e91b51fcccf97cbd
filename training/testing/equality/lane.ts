import { type ChildProcess, fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { build } from 'esbuild';
import type { Strategy } from '../../../conf/job.ts';
import type { TaskContext } from '../../../contract/process/task-context.ts';
import { fileUri } from '../../../storage/uri.ts';
import { type BoundPort, bindPort } from '../bind-port.ts';
import { type Difference, differenceOf } from './compare.ts';
import type { Answer, Program } from './program.ts';
import type { RankMessage } from './rank-side.ts';

const RANKS = 3;
const SERVERS = 2;
/** The time limit in ms for one program, which is long enough for a busy machine. */
const PROGRAM_MS = 120_000;

export interface LaneOptions {
  /** The Node.js executable that runs the processes. Default: the one that runs this process. */
  readonly node?: string;
  readonly env?: NodeJS.ProcessEnv;
}

/** The difference between the two sides, the reason for skipping the program, or null if both sides agree. */
export type Verdict = Difference | { readonly skipped: string } | null;

/** A child process that answers each message with one message. */
class Side {
  readonly #start: () => ChildProcess;
  #child: ChildProcess | null = null;
  #errors = '';

  constructor(start: () => ChildProcess) {
    this.#start = start;
  }

  async ask<T>(message: unknown): Promise<T> {
    this.#child ??= await this.#started();
    const child = this.#child;
    return await new Promise<T>((resolve, reject) => {
      const timer = setTimeout(() => settle(() => reject(new Error(`no answer within ${PROGRAM_MS / 1000} s`))), PROGRAM_MS);
      const onMessage = (answer: T) => settle(() => resolve(answer));
      const onExit = (code: number | null, signal: string | null) =>
        settle(() => reject(new Error(`the process ended with ${signal ?? code}: ${this.#errors.slice(-2000)}`)));
      const settle = (then: () => void) => {
        clearTimeout(timer);
        child.off('message', onMessage).off('exit', onExit);
        then();
      };
      child.once('message', onMessage).once('exit', onExit);
      child.send(message as object);
    });
  }

  async #started(): Promise<ChildProcess> {
    const child = this.#start();
    this.#errors = '';
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#errors = (this.#errors + text).slice(-10_000);
    });
    child.stdout?.resume();
    const exited = once(child, 'exit').then(() => {
      throw new Error(`one of the processes being compared did not start: ${this.#errors}`);
    });
    await Promise.race([once(child, 'message'), exited]);
    exited.catch(() => {});
    return child;
  }

  /** Kills the process. The next message starts a new one. */
  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = null;
    if (child === null || child.exitCode !== null || child.signalCode !== null) {
      return;
    }
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  }
}

/** Processes for the two sides. They run one program after another, and are replaced after a failure. */
export class Lane {
  readonly #folder: string;
  readonly #ports: readonly BoundPort[];
  readonly #plain: Side;
  readonly #ranks: readonly Side[];
  readonly #servers: readonly Side[];
  #generation = 0;

  private constructor(folder: string, ports: readonly BoundPort[], { node = process.execPath, env = process.env }: LaneOptions) {
    const start = (program: string) => () =>
      fork(path.join(folder, `${program}.mjs`), {
        execPath: node,
        env,
        execArgv: [],
        // JSON cannot represent NaN.
        ...{ serialization: 'advanced', stdio: ['ignore', 'pipe', 'pipe', 'ipc'] },
      });
    this.#folder = folder;
    this.#ports = ports;
    this.#plain = new Side(start('plain-side'));
    this.#ranks = Array.from({ length: RANKS }, () => new Side(start('rank-side')));
    this.#servers = Array.from({ length: SERVERS }, () => new Side(start('rank-side')));
  }

  static async open(options: LaneOptions = {}): Promise<Lane> {
    const folder = await mkdtemp(path.join(tmpdir(), 'equality-'));
    await bundleSides(folder);
    return new Lane(folder, await Promise.all(Array.from({ length: RANKS + SERVERS }, () => bindPort(false))), options);
  }

  async close(): Promise<void> {
    await Promise.all([this.#plain, ...this.#ranks, ...this.#servers].map((side) => side.kill()));
    for (const port of this.#ports) {
      port.close();
    }
    await rm(this.#folder, { recursive: true, force: true });
  }

  /** Runs the same program on both sides and compares the results. */
  async run(program: Program): Promise<Verdict> {
    return await this.compare(program, program);
  }

  /** Runs `program` with this library and `expected` with TensorFlow.js alone. Both must give the same result. */
  async compare(program: Program, expected: Program): Promise<Verdict> {
    const plain = await this.#plain.ask<Answer>(expected);
    // If TensorFlow.js rejects the program, the ranks need not run it.
    return differenceOf(program, plain, 'error' in plain ? [] : await this.#runRanks(program));
  }

  /** Returns all ranks' answers. If a rank fails, returns only that rank's answer, because the other ranks cannot finish without it. */
  async #runRanks(program: Program): Promise<Answer[]> {
    this.#generation++;
    const { tasks, dispose } = await this.#writeTasks(program);
    const servers = this.#servers.slice(0, program.servers);
    const running = this.#ranks.slice(0, program.workers);
    try {
      await Promise.all(
        servers.map((server, index) => server.ask({ serve: tasks[program.workers + index] as string } satisfies RankMessage)),
      );
      const answers = running.map(async (rank, index) => {
        const answer = await rank.ask<Answer>({ program, taskFile: tasks[index] as string } satisfies RankMessage);
        if ('error' in answer) {
          throw new Error(`rank ${index}: ${answer.error}`);
        }
        return answer;
      });
      const all = await Promise.all(answers);
      await Promise.all(servers.map((server) => server.ask({ stop: true } satisfies RankMessage)));
      return all;
    } catch (error) {
      await Promise.all([...running, ...servers].map((side) => side.kill()));
      return [{ error: (error as Error).message }];
    } finally {
      await dispose();
    }
  }

  /** Writes the task files that an executor would write: first for the ranks, then for the parameter servers. */
  async #writeTasks({ workers, servers, strategy }: Program): Promise<{ tasks: string[]; dispose: () => Promise<void> }> {
    const generation = this.#generation;
    const place = (role: string, index: number, port: number) => ({
      role,
      index,
      taskRank: role === 'worker' ? index : null,
      host: '127.0.0.1',
      port,
    });
    const portAt = (index: number) => (this.#ports[index] as BoundPort).port;
    const members = [
      ...Array.from({ length: workers }, (_, index) => place('worker', index, portAt(index))),
      ...Array.from({ length: servers }, (_, index) => place('ps', index, portAt(RANKS + index))),
    ];
    const folder = path.join(this.#folder, `program-${generation}`);
    const chosen: Strategy =
      strategy === 'parameter-server' ? { type: strategy, staleness: workers === 1 ? null : 0 } : { type: 'all-reduce' };
    const common = {
      version: 1,
      ...{ jobId: 'application_1_0001', jobName: 'equality', generation, taskWorldSize: workers, members },
      ringKey: randomBytes(32).toString('base64'),
      strategy: chosen,
      wire: { dtype: strategy === 'float16' ? 'float16' : 'float32', security: 'none' },
      parameterServers: members.filter(({ role }) => role === 'ps').map(({ host, port }) => ({ host, port })),
      checkpoint: { dir: fileUri(`${folder}-checkpoints`), everySteps: null, everyMs: null, keep: 1 },
      ...{ summaryDir: fileUri(`${folder}-summaries`), outputDir: fileUri(`${folder}-output`) },
      ...{ data: {}, user: 'someone', hadoop: null, s3: null, services: null },
    } as const;
    const tasks = await Promise.all(
      members.map(async ({ role, index, taskRank, host, port }, at) => {
        const file = `${folder}-task-${at}.json`;
        const instances = role === 'worker' ? workers : servers;
        // The processes do not inherit a socket, so the descriptor is invalid, and each task listens on its announced port.
        const listener = { fd: 999, host, port };
        const task: TaskContext = {
          ...common,
          role,
          index,
          taskRank,
          instances,
          listener,
          reportFile: `${file}.reports`,
          checkpointOrder: null,
          memoryBytes: null,
        };
        await writeFile(file, JSON.stringify(task));
        return file;
      }),
    );
    const leavings = [
      ...tasks.flatMap((file) => [file, `${file}.reports`]),
      `${folder}-checkpoints`,
      `${folder}-summaries`,
      `${folder}-output`,
    ];
    const dispose = async () => {
      for (const leaving of leavings) {
        await rm(leaving, { recursive: true, force: true });
      }
    };
    return { tasks, dispose };
  }
}

/** Bundles the two sides' programs without TensorFlow.js, as the training library is bundled for a job. */
async function bundleSides(folder: string): Promise<void> {
  const root = path.resolve(process.env.TONY_ROOT ?? process.cwd());
  await symlink(path.join(root, 'node_modules'), path.join(folder, 'node_modules'));
  await build({
    entryPoints: {
      'plain-side': 'training/testing/equality/plain-side.ts',
      'rank-side': 'training/testing/equality/rank-side.ts',
      'sync-ring-worker': 'training/ring/sync-ring-worker.ts',
      'checkpoint-thread': 'contract/checkpoint/checkpoint-thread-main.ts',
    },
    absWorkingDir: root,
    ...{ bundle: true, platform: 'node', format: 'esm', external: ['@tensorflow/*'], logLevel: 'error' },
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    banner: { js: "import { createRequire as makeRequire } from 'node:module'; const require = makeRequire(import.meta.url);" },
  });
}
