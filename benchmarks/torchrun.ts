/**
 * `npm run bench -- torchrun [--rounds N] [--steps N]`: measures a step of training with PyTorch's DistributedDataParallel in two
 * processes, under torchrun's launcher and in a local job with one task. The two variants alternate. tony-ts is not involved in the steps,
 * so the durations must be equal within 2 %. The results are the medians of the duration and of the program's processor time over the
 * rounds. Other load on the machine affects the processor time less than the duration. `npm run bench -- overhead` measures the processor
 * time of tony-ts itself. Requires PyTorch for the system's Python.
 */
import { execFile } from 'node:child_process';
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { parseArgs, promisify } from 'node:util';
import { median } from './median.ts';

const execute = promisify(execFile);
const ROOT = process.cwd();
const PYTHON = '/usr/bin/python3';
const TARGET_PERCENT = 2;

const { values } = parseArgs({ options: { rounds: { type: 'string', default: '5' }, steps: { type: 'string', default: '3000' } } });
const rounds = Math.max(1, Number(values.rounds));
const folder = await mkdtemp(path.join(ROOT, '.cache', 'torchrun-'));
const environment = { ...process.env, OMP_NUM_THREADS: '1', TONY_LOCAL_DIR: path.join(folder, 'local') };

interface Step {
  readonly ms: number;
  readonly processorMs: number;
}

function stepIn(output: string): Step {
  return JSON.parse(/\{"ms".*\}/.exec(output)?.[0] ?? '{}') as Step;
}

async function underTorchrun(): Promise<Step> {
  const launcher = path.join(ROOT, 'integration-tests', 'programs', 'elastic-launch.py');
  const { stdout } = await execute(PYTHON, [launcher, 'ddp.py', String(values.steps)], { cwd: folder, env: environment });
  return stepIn(stdout);
}

async function inJob(): Promise<Step> {
  const command = [path.join(ROOT, 'dist', 'tony-ts.js'), 'submit', '--local', '--conf', path.join(folder, 'job.yaml')];
  const { stdout } = await execute(process.execPath, command, { cwd: folder, env: environment });
  const id = /local_\d+_\d+/.exec(stdout)?.[0] ?? '';
  const logs = [path.join(ROOT, 'dist', 'tony-ts.js'), 'logs', id, 'worker:0'];
  return stepIn((await execute(process.execPath, logs, { cwd: folder, env: environment })).stdout);
}

try {
  await copyFile(path.join(ROOT, 'benchmarks', 'peers', 'ddp.py'), path.join(folder, 'ddp.py'));
  const roles = 'processesPerTask: 2\nroles: {worker: {resources: {memory: 2g}}}';
  await writeFile(
    path.join(folder, 'job.yaml'),
    `name: ddp\nframework: pytorch\nruntime: system\ncommand: ${PYTHON} ddp.py ${values.steps}\n${roles}\n`,
  );
  const [plain, job]: [Step[], Step[]] = [[], []];
  for (let round = 1; round <= rounds; round++) {
    plain.push(await underTorchrun());
    job.push(await inJob());
    process.stderr.write(`round ${round} of ${rounds}: ${plain.at(-1)?.ms.toFixed(3)} ms, ${job.at(-1)?.ms.toFixed(3)} ms\n`);
  }
  const medianOf = (steps: readonly Step[], clock: keyof Step): number => median(steps.map((step) => step[clock]));
  for (const [clock, what, target] of [
    ['ms', 'ms per step', ` (target: <= ${TARGET_PERCENT} %)`],
    ['processorMs', 'ms of processor time per step', ''],
  ] as const) {
    const [plainMs, jobMs] = [medianOf(plain, clock), medianOf(job, clock)];
    const difference = 100 * (jobMs / plainMs - 1);
    process.stdout.write(
      `${what}, medians of ${rounds}: torchrun ${plainMs.toFixed(3)}, tony-ts ${jobMs.toFixed(3)}: ${difference.toFixed(1)} %${target}\n`,
    );
  }
} finally {
  await rm(folder, { recursive: true, force: true });
}
