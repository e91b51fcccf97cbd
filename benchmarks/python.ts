/**
 * `npm run bench -- python [--rounds N] [--mebibytes N] [--output json]`: measures the Python package `tony`: the time that
 * `import tony` adds to the start of a program, and, in a job on the local cluster, the time of `tony.report`, and of `save_checkpoint` and `data_dir` beside
 * `hdfs dfs -put` and `-get` of the same files. The measurements alternate within one run; the results are medians.
 */
import { spawnSync } from 'node:child_process';
import { randomFillSync } from 'node:crypto';
import { copyFile, cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { type BenchCluster, openCluster } from './bench-cluster.ts';
import { type Figure, type Goal, showFigures } from './figures.ts';
import { median } from './median.ts';

const COMMAND = path.join(process.cwd(), 'dist', 'tony-ts.js');
const USER = 'alice';
const MIB = 1024 * 1024;
const STARTS = 9;

/** Seconds of each part of a round. */
interface Round {
  readonly report: number;
  readonly save: number;
  readonly put: number;
  readonly data: number;
  readonly get: number;
}

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    mebibytes: { type: 'string', default: '1024' },
    output: { type: 'string', default: 'text' },
  },
});
const [rounds, mebibytes] = [values.rounds, values.mebibytes].map((value) => Math.max(1, Number(value))) as [number, number];

const bench = await openCluster('python', (line) => void process.stderr.write(`${line}\n`));
try {
  showFigures('python', [...(await imports(bench.folder)), ...(await job(bench))], values.output);
} finally {
  await bench.close();
}

/** Measures starts of Python. A container has a copy of the package that no program has compiled before. */
async function imports(folder: string): Promise<Figure[]> {
  const environment = { ...process.env, PYTHONPATH: folder };
  Reflect.deleteProperty(environment, 'PYTHONDONTWRITEBYTECODE');
  const ms = (code: string): number => {
    const started = performance.now();
    const { status, stderr } = spawnSync('python3', ['-c', code], { env: environment, encoding: 'utf8' });
    if (status !== 0) {
      throw new Error(`python3 ended with ${status}: ${stderr}`);
    }
    return performance.now() - started;
  };
  const [bare, first, again]: [number[], number[], number[]] = [[], [], []];
  for (let start = 0; start < STARTS; start++) {
    await rm(path.join(folder, 'tony'), { recursive: true, force: true });
    await cp(path.join('python', 'tony'), path.join(folder, 'tony'), { recursive: true, filter: (file) => !file.includes('__pycache__') });
    bare.push(ms('pass'));
    first.push(ms('import tony'));
    again.push(ms('import tony'));
  }
  const above = (name: string, all: readonly number[]): Figure => ({
    what: `import tony, ${name}, above python3 alone`,
    value: median(all.map((each, start) => each - (bare[start] as number))),
    unit: 'ms',
    goal: { atMost: 60 },
    detail: `python3 alone: ${median(bare).toFixed(0)} ms`,
  });
  return [above('not compiled', first), above('compiled', again)];
}

async function job({ cluster, folder }: BenchCluster): Promise<Figure[]> {
  const [files, results] = [path.join(folder, 'files'), path.join(folder, 'results.json')];
  await mkdir(files);
  for (let part = 0; part < 4; part++) {
    await writeFile(path.join(files, `part-${part}`), randomFillSync(new Uint8Array(Math.ceil(mebibytes / 4) * MIB)));
  }
  await copyFile(path.join('benchmarks', 'peers', 'python-program.py'), path.join(folder, 'program.py'));
  const remote = `/user/${USER}/bench-python`;
  const hdfs = ['env', `HADOOP_USER_NAME=${USER}`, ...(await cluster.clientProgram('org.apache.hadoop.fs.FsShell'))];
  const run = (command: string, words: readonly string[]): void => {
    const { status, stdout, stderr } = spawnSync(command, words, {
      env: { ...process.env, ...cluster.environment(), HADOOP_USER_NAME: USER },
      encoding: 'utf8',
    });
    if (status !== 0) {
      throw new Error(`${command} ${words.join(' ')} ended with ${status}:\n${stdout}${stderr}`);
    }
  };
  const shell = (...words: readonly string[]): void => run(hdfs[0] as string, [...hdfs.slice(1), ...words]);
  const words = [files, remote, String(rounds), results, ...hdfs].map((word) => `'${word}'`).join(' ');
  const data = Array.from({ length: rounds }, (_, round) => `part${round}: "hdfs://${remote}/input"`).join(', ');
  const lines = [
    'name: python',
    'framework: none',
    `command: "python3 program.py ${words}"`,
    `data: {${data}}`,
    `checkpoint: {dir: "hdfs://${remote}/checkpoints", keep: 1}`,
    'roles: {worker: {resources: {memory: 2g}}}',
  ];
  await writeFile(path.join(folder, 'job.yaml'), `${lines.join('\n')}\n`);
  shell('-mkdir', '-p', remote);
  try {
    shell('-put', files, `${remote}/input`);
    run(process.execPath, [COMMAND, 'submit', '--conf', path.join(folder, 'job.yaml')]);
  } finally {
    shell('-rm', '-r', '-f', '-skipTrash', remote);
  }
  return figuresOf(JSON.parse(await readFile(results, 'utf8')) as Round[]);
}

function figuresOf(all: readonly Round[]): Figure[] {
  const of = (key: keyof Round): number => median(all.map((round) => round[key]));
  const beside = (what: string, ours: keyof Round, theirs: keyof Round, goal: Goal): Figure => ({
    what,
    value: median(all.map((round) => round[theirs] / round[ours])),
    unit: 'x',
    goal,
    detail: `${of(ours).toFixed(1)} s, hdfs dfs ${of(theirs).toFixed(1)} s`,
  });
  return [
    { what: 'tony.report', value: of('report') * 1e6, unit: 'us', goal: { atMost: 20 } },
    beside(`save_checkpoint of ${mebibytes} MiB / hdfs dfs -put`, 'save', 'put', { atLeast: 0.9 }),
    beside(`data_dir of ${mebibytes} MiB / hdfs dfs -get`, 'data', 'get', { atLeast: 0.9 }),
  ];
}
