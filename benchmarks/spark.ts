/**
 * `npm run bench -- spark [--rounds N] [--records N]`: measures how many records per second a job receives from a cached DataFrame, and from
 * the same records in Parquet files that the job reads itself, in turns: vectors of 784 floats and strings, with one and two workers. The
 * time begins when the programs begin to read. Also prints the CPU time of the ApplicationMaster, which receives none of the records.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { sparkEnvironment } from '../integration-tests/spark-environment.ts';
import { median } from './median.ts';

/** Least rate of the feed, as a share of that of Parquet files. */
const TARGET = 0.7;
const ROOT = process.cwd();

interface Measured {
  readonly data: string;
  readonly workers: number;
  readonly way: 'feed' | 'parquet';
  readonly rowsPerS: number;
  readonly masterS: number | null;
}

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '3' }, records: { type: 'string', default: '60000' } },
});
const folder = await mkdtemp(path.join(ROOT, '.cache', 'bench-spark-'));
try {
  const python = await sparkEnvironment();
  const env = {
    ...process.env,
    PYTHONPATH: path.join(ROOT, 'python'),
    PYSPARK_PYTHON: python,
    SPARK_LOCAL_IP: '127.0.0.1',
    TONY_COMMAND: `'${process.execPath}' '${path.join(ROOT, 'dist', 'tony-ts.js')}'`,
    TONY_LOCAL_DIR: path.join(folder, 'local'),
  };
  const words = [path.join(ROOT, 'benchmarks', 'peers', 'spark-feeding.py'), folder, values.rounds, values.records];
  const child = spawn(python, words, { env, stdio: ['ignore', 'pipe', 'ignore'] });
  const all: Measured[] = [];
  for await (const line of createInterface(child.stdout)) {
    if (line.startsWith('{')) {
      all.push(JSON.parse(line) as Measured);
    }
  }
  if (child.exitCode === null) {
    await once(child, 'exit');
  }
  if (child.exitCode !== 0) {
    throw new Error(`the Spark program ended with ${child.exitCode}`);
  }
  const of = (data: string, workers: number, way: Measured['way']) =>
    all.filter((each) => each.data === data && each.workers === workers && each.way === way);
  for (const data of ['floats', 'strings']) {
    for (const workers of [1, 2]) {
      const feed = of(data, workers, 'feed');
      const rates = [feed, of(data, workers, 'parquet')].map((each) => median(each.map(({ rowsPerS }) => rowsPerS)));
      const [own = 0, parquet = 0] = rates;
      const share = own / parquet;
      const master = median(feed.flatMap(({ masterS }) => masterS ?? []));
      console.log(
        `${data.padEnd(8)} ${workers} workers  feed ${own.toFixed(0).padStart(8)}/s  parquet ${parquet.toFixed(0).padStart(8)}/s  ratio ${share.toFixed(2)}${share < TARGET ? ` below ${TARGET}` : ''}  master ${master.toFixed(1)} s`,
      );
    }
  }
} finally {
  await rm(folder, { recursive: true, force: true });
}
