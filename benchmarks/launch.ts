/**
 * `npm run bench -- launch [--rounds N] [--framework NAME] [--requirement NAME==VERSION] [--output json]`: measures the duration of a
 * `sleep 1` job on an idle local cluster to which all files have already been uploaded. Also measures the memory use of the
 * ApplicationMaster and the executors. The results are medians. The default framework is `none`. With a requirement, the job also ships an
 * archive with this Python package, which the nodes have already localised. Also compares `tony-ts list` and `status` with
 * `yarn application -list`.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { sparkEnvironment } from '../integration-tests/spark-environment.ts';
import { openCluster } from './bench-cluster.ts';
import { atMost, type Figure, showFigures } from './figures.ts';
import { median } from './median.ts';

const ROOT = process.cwd();
const COMMAND = path.join(ROOT, 'dist', 'tony-ts.js');
const USER = 'alice';
const WORKERS = [1, 4] as const;

/** Times in ms; peak resident memory in MiB. */
interface Sample {
  readonly commandToFirst: number;
  readonly commandToLast: number;
  readonly acceptedToFirst: number;
  readonly acceptedToLast: number;
  readonly endToFinished: number;
  readonly wholeCommand: number;
  readonly masterMiB: number;
  readonly executorMiB: number;
}

/** Largest values by number of workers. TonY needs 8.1 s for one worker, and 13.1 s for four workers. */
const GOALS: Readonly<Record<(typeof WORKERS)[number], Partial<Record<keyof Sample, number>>>> = {
  1: { commandToFirst: 1500, endToFinished: 300, masterMiB: 92, executorMiB: 66 },
  4: { commandToLast: 2000, endToFinished: 300, masterMiB: 92, executorMiB: 66 },
};

const LABELS: Readonly<Record<keyof Sample, string>> = {
  commandToFirst: 'command started -> first user process',
  commandToLast: 'command started -> last user process',
  acceptedToFirst: 'accepted by YARN -> first user process',
  acceptedToLast: 'accepted by YARN -> last user process',
  endToFinished: 'last user process ended -> FINISHED',
  wholeCommand: 'whole command',
  masterMiB: 'ApplicationMaster resident',
  executorMiB: 'executor resident',
};

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '10' },
    framework: { type: 'string', default: 'none' },
    requirement: { type: 'string' },
    output: { type: 'string', default: 'text' },
  },
});
const rounds = Math.max(1, Number(values.rounds));
const progress = (line: string): void => void process.stderr.write(`${line}\n`);

const { cluster, folder, close } = await openCluster('launch', progress);
let lastId = '';
const python = values.requirement === undefined ? '' : 'python: {requirements: requirements.txt}\n';
try {
  await writeFile(path.join(folder, 'requirements.txt'), `${values.requirement ?? ''}\n`);
  const medians = new Map<(typeof WORKERS)[number], Sample>();
  for (const workers of WORKERS) {
    // Uploads all files and fills the nodes' caches.
    for (let warm = 0; warm < 2; warm++) {
      await measure(workers, 'warm');
    }
    const samples: Sample[] = [];
    for (let round = 1; round <= rounds; round++) {
      samples.push(await measure(workers, String(round)));
      progress(`${workers} worker${workers === 1 ? '' : 's'}, round ${round} of ${rounds}`);
    }
    medians.set(workers, medianOf(samples));
  }
  showFigures('launch', [...[...medians].flatMap(figuresOf), ...(await commands())], values.output);
} finally {
  await close();
}

async function measure(workers: number, round: string): Promise<Sample> {
  const marks = path.join(folder, `${workers}-${round}`);
  await rm(marks, { recursive: true, force: true });
  await mkdir(marks, { recursive: true, mode: 0o777 });
  const conf = path.join(folder, `${workers}.yaml`);
  const command = 'date +%s%3N > "$MARKS/start-$TONY_INDEX"; sleep 1; date +%s%3N > "$MARKS/end-$TONY_INDEX"';
  await writeFile(
    conf,
    `name: launch\nframework: ${values.framework}\ncommand: '${command}'\n${python}roles: {worker: {instances: ${workers}, resources: {memory: 512m}}}\nmaster: {resources: {memory: 512m}}\n`,
  );
  const started = Date.now();
  const memory = watchMemory();
  const child = spawn(process.execPath, [COMMAND, 'submit', '--conf', conf, '--set', `env.MARKS=${marks}`, '--output', 'json'], {
    env: { ...process.env, ...cluster.environment(), HADOOP_USER_NAME: USER },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  const [exitCode] = (await once(child, 'close')) as [number | null];
  const wholeCommand = Date.now() - started;
  const peaks = memory.stop();
  const result = output
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { type: string; id?: string })
    .at(-1);
  if (exitCode !== 0 || result?.id === undefined) {
    throw new Error(`the job failed (exit code ${exitCode}):\n${output}`);
  }
  lastId = result.id;
  const answer = await fetch(`${cluster.resourceManager}/ws/v1/cluster/apps/${result.id}?user.name=${USER}`);
  const { app } = (await answer.json()) as { app: { startedTime: number; finishedTime: number } };
  const times = async (mark: string): Promise<number[]> => {
    const files = (await readdir(marks)).filter((file) => file.startsWith(mark));
    return Promise.all(files.map(async (file) => Number(await readFile(path.join(marks, file), 'utf8'))));
  };
  const starts = await times('start-');
  const ends = await times('end-');
  if (starts.length !== workers || ends.length !== workers) {
    throw new Error(`${starts.length} of ${workers} user processes ran`);
  }
  return {
    commandToFirst: Math.min(...starts) - started,
    commandToLast: Math.max(...starts) - started,
    acceptedToFirst: Math.min(...starts) - app.startedTime,
    acceptedToLast: Math.max(...starts) - app.startedTime,
    endToFinished: app.finishedTime - Math.max(...ends),
    wholeCommand,
    masterMiB: peaks.master,
    executorMiB: peaks.executor,
  };
}

/** Measures commands that users run often, in turns with YARN's own. */
async function commands(): Promise<Figure[]> {
  // PySpark contains YARN's client.
  const where = spawnSync(await sparkEnvironment(), ['-c', 'import pyspark; print(pyspark.__path__[0])'], { encoding: 'utf8' });
  const classes = [path.join(where.stdout.trim(), 'jars', '*'), cluster.configuration].join(path.delimiter);
  const words = ['-cp', classes, 'org.apache.hadoop.yarn.client.cli.ApplicationCLI', 'application', '-list', '-appStates', 'ALL'];
  const env = { ...process.env, ...cluster.environment(), HADOOP_USER_NAME: USER };
  const ms = (command: string, args: readonly string[]): number => {
    const started = performance.now();
    const { status, stderr } = spawnSync(command, args, { env, encoding: 'utf8' });
    if (status !== 0) {
      throw new Error(`${command} ${args.join(' ')} ended with ${status}: ${stderr}`);
    }
    return performance.now() - started;
  };
  const own = { 'tony-ts list': ['list'], 'tony-ts status': ['status', lastId] };
  const times = new Map(Object.keys(own).map((name): [string, [number, number][]] => [name, []]));
  for (let round = 0; round < rounds; round++) {
    const yarn = ms('java', words);
    for (const [name, args] of Object.entries(own)) {
      times.get(name)?.push([yarn, ms(process.execPath, [COMMAND, ...args])]);
    }
  }
  return [...times].map(([name, pairs]) => ({
    what: `yarn application -list / ${name}`,
    value: median(pairs.map(([yarn, ours]) => yarn / ours)),
    unit: 'x',
    goal: { atLeast: 1 },
    detail: `${[0, 1].map((side) => median(pairs.map((pair) => pair[side] as number)).toFixed(0)).join(' / ')} ms`,
  }));
}

function watchMemory(): { stop(): { master: number; executor: number } } {
  const peaks = { master: 0, executor: 0 };
  const look = async (): Promise<void> => {
    for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
      const args = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
      const kind = /application-master\.mjs/.test(args) ? 'master' : /task-executor\.mjs/.test(args) ? 'executor' : null;
      // Excludes the shell that starts the process, because the shell's command line contains the same words.
      if (kind === null || !/^[^\0]*node\0/.test(args)) {
        continue;
      }
      const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
      peaks[kind] = Math.max(peaks[kind], Number(/^VmHWM:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) / 1024);
    }
  };
  const timer = setInterval(() => void look(), 200);
  return {
    stop() {
      clearInterval(timer);
      return peaks;
    },
  };
}

function medianOf(samples: readonly Sample[]): Sample {
  const of = (key: keyof Sample): number => Math.round(median(samples.map((sample) => sample[key])));
  return Object.fromEntries((Object.keys(LABELS) as (keyof Sample)[]).map((key) => [key, of(key)])) as unknown as Sample;
}

function figuresOf([workers, sample]: readonly [(typeof WORKERS)[number], Sample]): Figure[] {
  return (Object.keys(LABELS) as (keyof Sample)[]).map((key) => ({
    what: `${workers} worker${workers === 1 ? '' : 's'}: ${LABELS[key]}`,
    value: sample[key],
    unit: key.endsWith('MiB') ? 'MiB' : 'ms',
    goal: atMost(GOALS[workers][key]),
  }));
}
