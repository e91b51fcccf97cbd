/**
 * `npm run equality -- [--programs 2000] [--seed 1] [--lanes 2] [--backend cpu] [--program JSON]`: runs generated programs with this
 * library and with TensorFlow.js alone, and compares the results. For each difference, prints the smallest program that shows it.
 * `--program` runs such a program again. `--lane resume` compares programs that are killed and resumed with undisturbed programs. With
 * `--sigkill`, each generation is a process that kills itself.
 */
import { execFile } from 'node:child_process';
import path from 'node:path';
import { parseArgs, promisify } from 'node:util';
import { deserialize, serialize } from 'node:v8';
import fc from 'fast-check';
import { ensureRuntime } from '../client/runtime/ensure-runtime.ts';
import { programEnvironment } from '../contract/process/program-environment.ts';
import { programs } from '../training/testing/equality/arbitrary.ts';
import { Lane, type LaneOptions } from '../training/testing/equality/lane.ts';
import type { Program } from '../training/testing/equality/program.ts';
import { type ResumeProgram, resumePrograms } from '../training/testing/resume/program.ts';
import { type Attempt, type Attempting, attemptHere, attemptUntilSignal, differenceAfterKills } from '../training/testing/resume/run.ts';

const { values } = parseArgs({
  options: {
    programs: { type: 'string', default: '2000' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    lanes: { type: 'string', default: '2' },
    backend: { type: 'string', default: 'cpu' },
    strategy: { type: 'string' },
    workers: { type: 'string' },
    actions: { type: 'string' },
    variables: { type: 'string' },
    'equal-start': { type: 'boolean', default: false },
    program: { type: 'string' },
    verbose: { type: 'boolean', default: false },
    /** `resume` kills and resumes programs. `plain` compares them with TensorFlow.js alone. */
    lane: { type: 'string', default: 'plain' },
    sigkill: { type: 'boolean', default: false },
    /** A generation that this process runs for another process. */
    attempt: { type: 'string' },
  },
});

/** Number of programs per search. A search ends at the first difference. */
const BATCH = 50;

async function laneOptions(): Promise<LaneOptions> {
  if (values.backend !== 'native') {
    return { env: { ...process.env, TONY_BACKEND: values.backend } };
  }
  const runtime = await ensureRuntime((line) => console.log(line));
  const { PATH, HOME } = process.env;
  const env = programEnvironment(path.resolve('dist', 'container'), runtime.tree, { PATH, HOME });
  return {
    node: path.join(runtime.tree, 'bin', 'node'),
    env: { ...env, PLAIN_TFJS: '@tensorflow/tfjs-node', TF_NUM_INTRAOP_THREADS: '1' },
  };
}

const list = <T extends string>(text: string | undefined) => text?.split(',') as T[] | undefined;
const arbitrary = programs({
  strategies: list(values.strategy),
  workers: list(values.workers)?.map(Number),
  actions: list(values.actions),
  variables: list(values.variables),
  unequalStarts: !values['equal-start'],
});
const wanted = Number(values.programs);
const started = performance.now();
const counts = { run: 0, skipped: 0, differ: 0 };
let nextSeed = Number(values.seed);

async function check(lane: Lane, program: Program): Promise<void> {
  const before = performance.now();
  const verdict = await lane.run(program);
  if (values.verbose) {
    console.log(Math.round(performance.now() - before), 'ms', JSON.stringify(verdict), JSON.stringify(program));
  }
  if (verdict === null) {
    return;
  }
  if ('skipped' in verdict) {
    counts.skipped++;
    fc.pre(false);
  } else {
    throw new Error(`${verdict.what} (by ${verdict.by})`);
  }
}

async function search(lane: Lane): Promise<void> {
  while (counts.run < wanted) {
    const seed = nextSeed++;
    const report = await fc.check(
      fc.asyncProperty(arbitrary, async (program) => {
        counts.run++;
        await check(lane, program);
      }),
      { seed, numRuns: BATCH, maxSkipsPerRun: 10 },
    );
    if (report.failed && report.counterexample !== null) {
      counts.differ++;
      console.log(`\nseed ${seed}: ${String((report.errorInstance as Error | null)?.message).slice(0, 1500)}`);
      console.log(`  --program '${JSON.stringify(report.counterexample[0])}'`);
    }
    const minutes = (performance.now() - started) / 60_000;
    const { run, skipped, differ } = counts;
    console.log(
      `seed ${seed}: ${run} programs (${Math.round(run / minutes)} a minute), ${skipped} skipped, ${differ} searches found a difference`,
    );
  }
}

const run = promisify(execFile);

/** Runs a generation as a process. */
const attemptByProcess: Attempting = async (attempt) => {
  const given = serialize(attempt).toString('base64');
  try {
    const { stdout } = await run(process.execPath, [process.argv[1] as string, '--attempt', given], { maxBuffer: 1e8 });
    return deserialize(Buffer.from(stdout.trimEnd().split('\n').at(-1) as string, 'base64'));
  } catch (error) {
    if ((error as { signal?: string }).signal === 'SIGKILL') {
      return null;
    }
    throw error;
  }
};
const attempting = values.sigkill ? attemptByProcess : attemptHere;

async function searchResumed(): Promise<void> {
  while (counts.run < wanted) {
    const seed = nextSeed++;
    const property = fc.asyncProperty(resumePrograms, async (program) => {
      counts.run++;
      const difference = await differenceAfterKills(program, attempting);
      if (difference !== null) {
        throw new Error(difference);
      }
    });
    const report = await fc.check(property, { seed, numRuns: BATCH });
    if (report.failed && report.counterexample !== null) {
      counts.differ++;
      console.log(`\nseed ${seed}: ${String((report.errorInstance as Error | null)?.message).slice(0, 1500)}`);
      console.log(`  --lane resume --program '${JSON.stringify(report.counterexample[0])}'`);
    }
    console.log(`seed ${seed}: ${counts.run} programs, ${counts.differ} searches found a difference`);
  }
  process.exitCode = counts.differ > 0 ? 1 : 0;
}

if (values.attempt !== undefined) {
  const attempt = deserialize(Buffer.from(values.attempt, 'base64')) as Attempt;
  console.log(serialize(await attemptUntilSignal(attempt)).toString('base64'));
  process.exit();
}
if (values.lane === 'resume') {
  if (values.program === undefined) {
    await searchResumed();
  } else {
    console.log((await differenceAfterKills(JSON.parse(values.program) as ResumeProgram, attempting)) ?? 'both ends are equal');
  }
  process.exit();
}
const options = await laneOptions();
const lanes = await Promise.all(Array.from({ length: values.program === undefined ? Number(values.lanes) : 1 }, () => Lane.open(options)));
try {
  if (values.program !== undefined) {
    console.log((await (lanes[0] as Lane).run(JSON.parse(values.program) as Program)) ?? 'both sides agree');
  } else {
    await Promise.all(lanes.map(search));
    process.exitCode = counts.differ > 0 ? 1 : 0;
  }
} finally {
  await Promise.all(lanes.map((lane) => lane.close()));
}
