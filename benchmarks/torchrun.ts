/**
 * `npm run bench -- torchrun [--turns N] [--output json]`: compares a step of PyTorch's DistributedDataParallel in two processes under torchrun's launcher
 * with the same step in a local job with one task. Both programs run until the end of the benchmark, but only one of them at a time: in
 * turns of a few seconds, all processes of the other one are stopped, including those of tony-ts. Adjacent turns see the same machine, so
 * the result is the median ratio of adjacent turns. tony-ts is not involved in the steps, so the durations must be equal within 2 %.
 * Requires PyTorch for the system's Python.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { pause } from '../platform/async/backoff.ts';
import { type ProcessStat, readStat } from '../platform/process-stat.ts';
import { showFigures } from './figures.ts';
import { median } from './median.ts';

const ROOT = process.cwd();
const PYTHON = '/usr/bin/python3';
/** Largest ratio of a step in a job to a step under torchrun. */
const GOAL = 1.02;
const TURN_MS = 5000;
/** Part of a turn, at its start, that is not measured. The processes then do the work for which their timers became due while stopped. */
const SETTLING_MS = 500;
/** Time in ms until both programs train and the job's client and ApplicationMaster have finished their startup. */
const STARTUP_MS = 30_000;

const { values } = parseArgs({ options: { turns: { type: 'string', default: '20' }, output: { type: 'string', default: 'text' } } });
const turns = Math.max(1, Number(values.turns));
const folder = await mkdtemp(path.join(ROOT, '.cache', 'torchrun-'));
/** Aborted when the user interrupts the benchmark, which must not leave stopped processes. */
const interrupted = new AbortController();
for (const name of ['SIGINT', 'SIGTERM'] as const) {
  process.once(name, () => interrupted.abort(new Error(`interrupted by ${name}`)));
}
const environment = { ...process.env, OMP_NUM_THREADS: '1', TONY_LOCAL_DIR: path.join(folder, 'local') };

interface Contender {
  readonly child: ChildProcess;
  /** File to which rank 0 writes the duration of its steps. */
  readonly blocks: string;
}

/** Means over a turn, in ms per step. */
interface Turn {
  readonly wall: number;
  readonly processor: number;
}

function start(name: string, command: string, words: readonly string[]): Contender {
  const child = spawn(command, words, { cwd: folder, env: environment, stdio: ['ignore', 'ignore', 'inherit'] });
  return { child, blocks: path.join(folder, `${name}.blocks`) };
}

/** Sends a signal to a process and all its descendants. */
async function signal({ child }: Contender, name: NodeJS.Signals): Promise<void> {
  const all = (await readdir('/proc')).map((pid) => readStat(Number(pid))).filter((stat): stat is ProcessStat => stat !== null);
  const family = new Set([child.pid]);
  for (let size = 0; size !== family.size; ) {
    size = family.size;
    for (const { pid, parent } of all) {
      if (family.has(parent)) {
        family.add(pid);
      }
    }
  }
  for (const pid of family) {
    if (pid !== undefined && readStat(pid) !== null) {
      process.kill(pid, name);
    }
  }
}

/** Lets one program run for a turn, and returns the mean of its steps that began and ended in this turn. */
async function turn(contender: Contender): Promise<Turn> {
  await signal(contender, 'SIGCONT');
  const from = Date.now() / 1000 + SETTLING_MS / 1000;
  await pause(TURN_MS, interrupted.signal);
  interrupted.signal.throwIfAborted();
  await signal(contender, 'SIGSTOP');
  const measured = (await readFile(contender.blocks, 'utf8'))
    .split('\n')
    .map((line) => line.split(' ').map(Number))
    .filter((block): block is [number, number, number] => block.length === 3 && (block[0] ?? 0) - (block[1] ?? 0) >= from);
  if (measured.length === 0) {
    throw new Error(`no step was measured: see ${contender.blocks}`);
  }
  const mean = (at: 1 | 2): number => (100 * measured.reduce((sum, block) => sum + block[at], 0)) / measured.length;
  return { wall: mean(1), processor: mean(2) };
}

async function main(contenders: readonly [Contender, Contender]): Promise<void> {
  await pause(STARTUP_MS, interrupted.signal);
  interrupted.signal.throwIfAborted();
  const [plain, job] = contenders;
  await Promise.all(contenders.map((each) => signal(each, 'SIGSTOP')));
  const pairs: [Turn, Turn][] = [];
  for (let round = 1; round <= turns; round++) {
    // Alternates the order, so that a steady drift of the machine's speed has no effect on the median.
    const first = round % 2 === 0 ? await turn(job) : null;
    const plainTurn = await turn(plain);
    pairs.push([plainTurn, first ?? (await turn(job))]);
    const [theirs, ours] = pairs.at(-1) as [Turn, Turn];
    process.stderr.write(`turn ${round} of ${turns}: ${theirs.wall.toFixed(2)} ms, ${ours.wall.toFixed(2)} ms\n`);
  }
  const figures = (['wall', 'processor'] as const).map((clock) => {
    const [theirs, ours] = [0, 1].map((side) => median(pairs.map((pair) => (pair[side] as Turn)[clock])).toFixed(2));
    return {
      what: `PyTorch step in a job / under torchrun, ${clock} time`,
      value: median(pairs.map(([plain, own]) => own[clock] / plain[clock])),
      unit: 'x',
      goal: clock === 'wall' ? { atMost: GOAL } : undefined,
      detail: `${ours} / ${theirs} ms`,
    };
  });
  showFigures('torchrun', figures, values.output);
}

await copyFile(path.join(ROOT, 'benchmarks', 'peers', 'ddp.py'), path.join(folder, 'ddp.py'));
const command = `${PYTHON} ddp.py ${path.join(folder, 'job.blocks')}`;
const roles = 'processesPerTask: 2\nroles: {worker: {resources: {memory: 2g}}}';
await writeFile(path.join(folder, 'job.yaml'), `name: ddp\nframework: pytorch\nruntime: system\ncommand: ${command}\n${roles}\n`);
const launcher = path.join(ROOT, 'integration-tests', 'programs', 'elastic-launch.py');
const contenders = [
  start('plain', PYTHON, [launcher, 'ddp.py', path.join(folder, 'plain.blocks')]),
  start('job', process.execPath, [path.join(ROOT, 'dist', 'tony-ts.js'), 'submit', '--local', '--conf', path.join(folder, 'job.yaml')]),
] as const;
try {
  await main(contenders);
} finally {
  const ends = contenders.map(({ child }) => (child.exitCode === null ? once(child, 'exit') : undefined));
  const [plain, job] = contenders;
  await signal(plain, 'SIGKILL');
  await signal(job, 'SIGCONT');
  job.child.kill('SIGTERM');
  await Promise.all(ends);
  await rm(folder, { recursive: true, force: true });
}
