/**
 * `npm run bench -- overhead [--program ddp|sleep] [--detach] [--seconds N] [--output json]`: measures the processor time that each process
 * of a running job with two workers uses on the local cluster, and how often it wakes up. The program is PyTorch's DistributedDataParallel
 * (requires PyTorch for the system's Python) or `sleep`. All processes run on this machine. The processor time outside the program is the
 * cost of tony-ts and Hadoop. With `--detach`, no client follows the job. Other load on the machine hardly affects processor time.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { pause } from '../platform/async/backoff.ts';
import { readStat } from '../platform/process-stat.ts';
import { type BenchCluster, openCluster } from './bench-cluster.ts';
import { type Figure, showFigures } from './figures.ts';

const COMMAND = path.join(process.cwd(), 'dist', 'tony-ts.js');
const USER = 'alice';
const WORKERS = 2;
const TICKS_PER_SECOND = 100;
const START_MS = 120_000;
/**
 * Pause in ms between the start of the programs and the measurement. The other processes finish their startup, and the client then polls
 * less often.
 */
const SETTLING_MS = 60_000;
/** Maximum share of a core, in percent, of each executor and of the ApplicationMaster while the program sleeps. */
const GOAL_PERCENT = 0.5;

interface Program {
  readonly framework: string;
  readonly command: string;
  /** Text in the command line that identifies the program's process. */
  readonly words: string;
}

const PROGRAMS: Readonly<Record<string, Program>> = {
  ddp: { framework: 'pytorch', command: '/usr/bin/python3 ddp.py /dev/null', words: 'ddp.py /dev/null' },
  sleep: { framework: 'none', command: 'sleep 86400', words: 'sleep 86400' },
};

/** Seconds of processor time and number of wakeups since the start of a process. */
interface Used {
  readonly seconds: number;
  readonly wakeups: number;
}

interface Row extends Used {
  readonly kind: string;
  readonly processes: number;
}

const { values } = parseArgs({
  options: {
    program: { type: 'string', default: 'ddp' },
    detach: { type: 'boolean', default: false },
    seconds: { type: 'string', default: '60' },
    output: { type: 'string', default: 'text' },
  },
});
const program = PROGRAMS[values.program];
if (program === undefined) {
  throw new Error(`--program is one of ${Object.keys(PROGRAMS).join(', ')}`);
}
const seconds = Math.max(1, Number(values.seconds));

const bench = await openCluster('overhead', (line) => void process.stderr.write(`${line}\n`));
try {
  showFigures('overhead', figuresOf(await measure(bench, program)), values.output);
} finally {
  await bench.close();
}

async function measure({ cluster, folder }: BenchCluster, { framework, command, words }: Program): Promise<Row[]> {
  const conf = path.join(folder, 'job.yaml');
  const roles = `roles: {worker: {instances: ${WORKERS}, resources: {memory: 1g}}}\nmaster: {resources: {memory: 512m}}`;
  await copyFile(path.join('benchmarks', 'peers', 'ddp.py'), path.join(folder, 'ddp.py'));
  await writeFile(conf, `name: overhead\nframework: ${framework}\ncommand: ${command}\n${roles}\n`);
  const environment = { ...process.env, ...cluster.environment(), HADOOP_USER_NAME: USER };
  const submit = [COMMAND, 'submit', '--conf', conf, ...(values.detach ? ['--detach'] : [])];
  const client = spawn(process.execPath, submit, { env: environment, stdio: ['ignore', 'pipe', 'inherit'] });
  const jobId = await applicationOf(client);
  try {
    const isRunning = async (): Promise<boolean> =>
      [...(await kindsOfProcesses()).values()].filter((kind) => kind === 'program').length >= WORKERS;
    for (const deadline = performance.now() + START_MS; !(await isRunning()); await pause(500)) {
      if (performance.now() > deadline) {
        throw new Error(`the programs of ${jobId} did not start within ${START_MS / 1000} s`);
      }
    }
    await pause(SETTLING_MS);
    const kinds = await kindsOfProcesses();
    const before = await usedBy(kinds);
    const started = performance.now();
    await pause(seconds * 1000);
    const after = await usedBy(kinds);
    return rows(kinds, before, after, (performance.now() - started) / 1000);
  } finally {
    const kill = spawn(process.execPath, [COMMAND, 'kill', jobId, '--yes'], { env: environment, stdio: 'ignore' });
    await Promise.all([once(kill, 'close'), client.exitCode ?? once(client, 'close')]);
  }

  async function kindsOfProcesses(): Promise<ReadonlyMap<number, string>> {
    const daemons = (await cluster.status()).daemons.map(({ name, pid }): [number, string] => [pid ?? 0, name.replace(/\d$/, '')]);
    const containers = (await cluster.containers(jobId)).map(({ pid, command: line }): [number, string] => [pid, kindOf(line)]);
    return new Map([...(values.detach ? [] : [[client.pid ?? 0, 'client'] as const]), ...daemons, ...containers]);
  }

  function kindOf(line: string): string {
    const isShell = /^\S*bash\b/.test(line);
    if (!isShell && line.includes('application-master.mjs')) {
      return 'ApplicationMaster';
    }
    if (!isShell && line.includes('task-executor.mjs')) {
      return 'executor';
    }
    return !isShell && line.includes(words) ? 'program' : 'shell';
  }
}

/** Returns the ID of the submitted job. Continues to read the client's output afterwards, because a full pipe would block the client. */
function applicationOf(client: ChildProcess): Promise<string> {
  let output = '';
  return new Promise((resolve, reject) => {
    client.stdout?.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      const id = /application_\d+_\d+/.exec(output)?.[0];
      if (id !== undefined) {
        resolve(id);
      }
    });
    client.once('exit', () => reject(new Error(`the job has ended:\n${output}`)));
  });
}

async function usedBy(kinds: ReadonlyMap<number, string>): Promise<ReadonlyMap<number, Used>> {
  const used = await Promise.all([...kinds.keys()].map(async (pid) => [pid, await usedByProcess(pid)] as const));
  return new Map(used.flatMap(([pid, each]) => (each === null ? [] : [[pid, each]])));
}

async function usedByProcess(pid: number): Promise<Used | null> {
  const stat = readStat(pid);
  const threads = await readdir(`/proc/${pid}/task`).catch(() => []);
  const wakeups = await Promise.all(
    threads.map(async (thread) => {
      const text = await readFile(`/proc/${pid}/task/${thread}/status`, 'utf8').catch(() => '');
      return Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(text)?.[1] ?? 0);
    }),
  );
  return stat && { seconds: stat.ticks / TICKS_PER_SECOND, wakeups: wakeups.reduce((sum, each) => sum + each, 0) };
}

/** Returns one row for each kind of process, with the averages per process: seconds and wakeups per second. */
function rows(
  kinds: ReadonlyMap<number, string>,
  before: ReadonlyMap<number, Used>,
  after: ReadonlyMap<number, Used>,
  elapsed: number,
): Row[] {
  return [...new Set(kinds.values())].map((kind) => {
    const pids = [...kinds.keys()].filter((pid) => kinds.get(pid) === kind && before.has(pid) && after.has(pid));
    const perSecond = (name: keyof Used): number =>
      pids.reduce((sum, pid) => sum + (after.get(pid)?.[name] ?? 0) - (before.get(pid)?.[name] ?? 0), 0) / elapsed / pids.length;
    return { kind, processes: pids.length, seconds: perSecond('seconds'), wakeups: perSecond('wakeups') };
  });
}

function figuresOf(measured: readonly Row[]): Figure[] {
  return measured.map(({ kind, processes, seconds: used, wakeups }) => ({
    what: `${values.program}: each of ${processes} x ${kind}, share of a core`,
    value: 100 * used,
    unit: '%',
    goal: values.program === 'sleep' && (kind === 'executor' || kind === 'ApplicationMaster') ? { atMost: GOAL_PERCENT } : undefined,
    detail: `${wakeups.toFixed(1)} wakeups/s`,
  }));
}
