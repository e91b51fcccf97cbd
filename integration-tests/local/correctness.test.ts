/**
 * Compares runs of synchronous training on the native backend: several ranks with one rank, and interrupted runs with uninterrupted ones.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { ensureRuntime, type Runtime } from '../../client/runtime/ensure-runtime.ts';
import { programEnvironment } from '../../contract/process/program-environment.ts';
import type { Report, TaskContext } from '../../contract/process/task-context.ts';
import { fileUri } from '../../storage/uri.ts';
import { type BoundPort, bindPort } from '../../training/testing/bind-port.ts';
import { runGang } from '../../training/testing/correctness-gang.ts';
import type { CorrectnessCase } from '../../training/testing/correctness-program.ts';
import type { Death } from '../programs/dying.ts';
import { HANGS_MS } from '../until.ts';

const BUNDLES = path.resolve(import.meta.dirname, '..', '..', 'dist', 'container');
const DYING = path.resolve(import.meta.dirname, '..', 'programs', 'dying.ts');

let runtime: Runtime;
let folder: string;

beforeAll(async () => {
  runtime = await ensureRuntime((line) => console.log(line));
  folder = await mkdtemp(path.join(tmpdir(), 'correctness-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

function environment(): NodeJS.ProcessEnv {
  const { PATH, HOME } = process.env;
  return programEnvironment(BUNDLES, runtime.tree, { PATH, HOME });
}

/** With 3 ranks, the last rank gets no examples at the end of an epoch. */
const SIZES = { batchSize: 4, examples: 37 } as const;

const NETS = ['dense', 'convolutions with batch normalisation', 'dense layers with batch normalisation', 'lstm'] as const;
const OPTIMIZERS = ['sgd', 'momentum', 'adam'] as const;

const CASES: readonly CorrectnessCase[] = [
  ...NETS.flatMap((net) => OPTIMIZERS.map((optimizer) => ({ net, optimizer, ...SIZES }))),
  // Each micro-batch has its own statistics, so batch normalisation is excluded.
  ...(['dense', 'lstm'] as const).map((net) => ({ net, optimizer: 'adam' as const, ...SIZES, options: { accumulate: 3, clipNorm: 0.1 } })),
];

describe.each([
  [2, CASES.filter(({ optimizer }) => optimizer === 'adam')],
  [3, CASES],
] as const)('%i ranks', (ranks, cases) => {
  test('train the same weights as one rank with the whole batch, even with uneven last batches', async () => {
    const results = await runGang(ranks, cases, { node: path.join(runtime.tree, 'bin', 'node'), env: environment() });
    for (const [index, [first, ...others]] of results.entries()) {
      const given = cases[index] as CorrectnessCase;
      const what = `${given.net}, ${given.optimizer}`;
      expect(first?.difference, what).toBeLessThan(2e-4);
      expect(first?.lossDifference, what).toBeLessThan(1e-4);
      expect(first?.moved, what).toBeGreaterThan(0.01);
      for (const result of [first, ...others]) {
        expect(result, what).toMatchObject({ hash: first?.hash, leaked: 0 });
      }
    }
  });
});

test('50 steps leak no tensor, with one rank and with two', async () => {
  const run = { net: 'dense', optimizer: 'adam', examples: 80, epochs: 10, alone: false } as const;
  for (const ranks of [1, 2]) {
    const node = path.join(runtime.tree, 'bin', 'node');
    const [results] = await runGang(ranks, [{ ...run, batchSize: 16 / ranks }], { node, env: environment() });
    expect(results?.map(({ leaked }) => leaked)).toEqual(Array.from({ length: ranks }, () => 0));
  }
});

interface Rank {
  readonly child: ChildProcess;
  readonly exited: Promise<readonly [number | null, NodeJS.Signals | null]>;
  output(): string;
  reports(): Promise<Report[]>;
}

const WORLD_SIZE = 3;

/** Ports that are reserved until the end of the test file, because ranks may listen on them. */
const ports: BoundPort[] = [];
afterAll(() => {
  for (const port of ports) {
    port.close();
  }
});

/** Starts the ranks of a generation, as their executors do. */
async function startGeneration(name: string, generation: number, deaths: Readonly<Record<number, Death>>): Promise<Rank[]> {
  const bound = await Promise.all(Array.from({ length: WORLD_SIZE }, () => bindPort(false)));
  ports.push(...bound);
  const members = bound.map(({ port }, rank) => ({ role: 'worker', index: rank, taskRank: rank, host: '127.0.0.1', port }));
  const ringKey = randomBytes(32).toString('base64');
  return await Promise.all(
    members.map(async ({ role, index, host, port }) => {
      const file = path.join(folder, `${name}-${generation}-${index}`);
      const task: TaskContext = {
        version: 1,
        jobId: 'application_1_0001',
        jobName: name,
        ...{ role, index, taskRank: index, instances: WORLD_SIZE, taskWorldSize: WORLD_SIZE, generation, members, ringKey },
        // The rank inherits no socket and listens on the announced port.
        listener: { fd: 999, host, port },
        strategy: { type: 'all-reduce' },
        wire: { dtype: 'float32', security: 'none' },
        parameterServers: [],
        checkpoint: { dir: fileUri(path.join(folder, name, 'checkpoints')), everySteps: 4, everyMs: null, keep: 2 },
        summaryDir: fileUri(path.join(folder, name, 'summaries')),
        outputDir: fileUri(path.join(folder, name, 'output')),
        data: {},
        user: 'someone',
        hadoop: null,
        s3: null,
        reportFile: `${file}.reports`,
        checkpointOrder: null,
        services: null,
        memoryBytes: null,
      };
      await writeFile(`${file}.json`, JSON.stringify(task));
      const child = spawn(path.join(runtime.tree, 'bin', 'node'), [DYING], {
        stdio: ['ignore', 'pipe', 'pipe'],
        env: { ...environment(), TONY_TASK_FILE: `${file}.json`, DEATHS: JSON.stringify(deaths) },
      });
      let output = '';
      for (const stream of [child.stdout, child.stderr]) {
        stream.setEncoding('utf8').on('data', (text: string) => {
          output += text;
        });
      }
      return {
        child,
        exited: once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>,
        output: () => output,
        reports: async () => {
          const text = existsSync(`${file}.reports`) ? await readFile(`${file}.reports`, 'utf8') : '';
          return text
            .split('\n')
            .filter((line) => line !== '')
            .map((line) => JSON.parse(line) as Report);
        },
      };
    }),
  );
}

/** Starts a new generation after each death, as the ApplicationMaster does, and returns the output of the last generation. */
async function trainThrough(name: string, deaths: Readonly<Record<number, Death>>): Promise<{ steps: number; hash: string }[]> {
  for (let generation = 1; ; generation++) {
    const ranks = await startGeneration(name, generation, deaths);
    const death = deaths[generation];
    if (death === undefined) {
      for (const rank of ranks) {
        expect(await rank.exited, rank.output()).toEqual([0, null]);
      }
      return ranks.map((rank) => JSON.parse(rank.output().match(/^\{.*\}$/m)?.[0] as string));
    }
    expect(await ranks[death.rank]?.exited, ranks[death.rank]?.output()).toEqual([null, 'SIGKILL']);
    const survivors = ranks.filter((_, rank) => rank !== death.rank);
    await vi.waitFor(
      async () => {
        for (const survivor of survivors) {
          expect(await survivor.reports()).toContainEqual({ type: 'peer-lost', taskRank: death.rank });
        }
      },
      { timeout: HANGS_MS },
    );
    for (const survivor of survivors) {
      survivor.child.kill('SIGKILL');
      await survivor.exited;
    }
  }
}

describe('training in which ranks die', () => {
  test('ends with exactly the weights of an undisturbed run', async () => {
    // Ranks die within and between steps, at the first and the last step, and at a checkpoint. Checkpoints are four steps apart.
    const deaths: Readonly<Record<number, Death>> = {
      1: { rank: 1, step: 1, where: 'within' },
      2: { rank: 2, step: 8, where: 'between' },
      3: { rank: 0, step: 11, where: 'within' },
      4: { rank: 1, step: 20, where: 'between' },
    };
    const undisturbed = await trainThrough('undisturbed', {});
    expect(new Set(undisturbed.map(({ hash }) => hash)).size).toBe(1);
    expect(undisturbed[0]?.steps).toBe(20);
    expect(await trainThrough('disturbed', deaths)).toEqual(undisturbed);
  });
});
