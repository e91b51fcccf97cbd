/**
 * `npm run bench -- spark [--rounds N] [--records N] [--output json]`: measures how many records per second PyTorch programs with one and two workers receive
 * from a cached DataFrame, in turns with other ways to the same records: vectors of 784 floats, and strings.
 *
 * - `feed`: tony-ts. Each program is a local job
 * - `parquet`: a local job reads the records from Parquet files, which are written before, with a DataLoader
 * - `petastorm`: a local job reads the Parquet files of Petastorm's converter with Petastorm's BatchedDataLoader
 * - `tensorflowonspark`: TensorFlowOnSpark's feed, with fewer records, because it is slow
 * - `export`: Spark only hands the records to its Python workers (mapInArrow). No feed can be faster
 *
 * The rate is that after the first quarter of the records. The start is the time from when the programs begin to read to the first batch. A way
 * that does not run prints the reason. Requires PyTorch for the system's Python, and downloads TensorFlow.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { packagesFor } from '../integration-tests/python-environment.ts';
import { sparkWithTensorflow, sparkWithTorch } from '../integration-tests/spark-environment.ts';
import { messageOf } from '../platform/errors.ts';
import { type Figure, showFigures } from './figures.ts';
import { median } from './median.ts';

/** Least rate of the feed, as shares of the other rates. */
const GOALS = { parquet: 0.7, tensorflowonspark: 5 } as const;
const WAYS = ['feed', 'export', 'parquet', 'petastorm', 'tensorflowonspark'] as const;
const ROOT = process.cwd();
/** Petastorm 0.12 needs an older pyarrow. All ways but TensorFlowOnSpark use the same one. */
const PETASTORM = ['petastorm==0.12.1', 'pyarrow==14.0.2', 'diskcache==5.6.3', 'future==1.0.0', 'dill==0.4.1'];
const PETASTORM_NEEDS = ['fsspec==2026.9.0', 'packaging==26.4', 'psutil==7.2.2', 'pyzmq==27.3.0', 'six==1.17.0'];
const TENSORFLOWONSPARK = ['tensorflowonspark==2.2.5', 'setuptools==80.9.0'];
/** Time in ms after which a turn has failed. */
const LIMIT_MS = 120_000;
/** TensorFlowOnSpark's number of records for each of the others' records. */
const FEWER = 0.01;

type Way = (typeof WAYS)[number];

interface Turn {
  readonly data: 'floats' | 'strings';
  readonly workers: number;
  readonly way: Way;
}

interface Measured {
  readonly rows: number;
  readonly rowsPerS: number;
  readonly startS: number;
  /** CPU time of the job's ApplicationMaster. */
  readonly masterS?: number | null;
}

/** A Spark program, which waits for its turns. */
class Peer {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  constructor(python: string, packages: string, records: number, tensorflowonspark: number) {
    const env = {
      ...process.env,
      PYTHONPATH: `${packages}:${path.join(ROOT, 'python')}`,
      PYSPARK_PYTHON: python,
      SPARK_LOCAL_IP: '127.0.0.1',
      TONY_COMMAND: `'${process.execPath}' '${path.join(ROOT, 'dist', 'tony-ts.js')}'`,
      TONY_LOCAL_DIR: path.join(folder, 'local'),
    };
    const words = [path.join(ROOT, 'benchmarks', 'peers', 'spark-feeding.py'), folder, String(records), String(tensorflowonspark)];
    const child = spawn(python, words, { env, cwd: folder, stdio: ['pipe', 'pipe', 'ignore'] });
    // A Spark program that has ended does not answer.
    child.stdin.on('error', () => {});
    this.#child = child;
    this.#lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  }

  /** Waits until Spark has persisted the records. */
  async ready(): Promise<this> {
    await this.#answer();
    return this;
  }

  async run(turn: Turn): Promise<Measured | { readonly failure: string }> {
    const limit = setTimeout(() => this.#child.kill('SIGKILL'), LIMIT_MS);
    try {
      this.#child.stdin?.write(`${JSON.stringify(turn)}\n`);
      const answer = await this.#answer();
      return answer ?? { failure: `its Spark program has ended, or did not answer for ${LIMIT_MS / 1000} s` };
    } finally {
      clearTimeout(limit);
    }
  }

  async #answer(): Promise<Measured | { readonly failure: string } | null> {
    for (;;) {
      const { done, value } = await this.#lines.next();
      if (done === true) {
        return null;
      }
      if (value.startsWith('{')) {
        return JSON.parse(value) as Measured | { readonly failure: string };
      }
    }
  }

  async end(): Promise<void> {
    this.#child.stdin?.end();
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      await once(this.#child, 'exit');
    }
  }
}

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    records: { type: 'string', default: '200000' },
    output: { type: 'string', default: 'text' },
  },
});
const [rounds, records] = [Number(values.rounds), Number(values.records)];
if (!Number.isInteger(rounds) || rounds < 1 || !Number.isInteger(records) || records < 10_000) {
  throw new Error('--rounds must be at least 1, and --records at least 10000');
}
const turns = (['floats', 'strings'] as const).flatMap((data) => [1, 2].flatMap((workers) => WAYS.map((way) => ({ data, workers, way }))));
const measured = new Map<Turn, Measured[]>();
/** Reasons why ways do not run. */
const failures = new Map<Turn, string>();
const folder = await mkdtemp(path.join(ROOT, '.cache', 'bench-spark-'));
const peers: Peer[] = [];
try {
  const startPeer = async (...options: ConstructorParameters<typeof Peer>) => {
    const peer = new Peer(...options);
    peers.push(peer);
    return await peer.ready();
  };
  const torch = await sparkWithTorch();
  if (torch === null) {
    throw new Error("the system's Python has no PyTorch; install it, on Debian with: apt-get install python3-torch");
  }
  const petastorm = await packagesFor(torch.python, path.resolve('.cache', 'petastorm-0.12.1'), [...PETASTORM, ...PETASTORM_NEEDS]).catch(
    messageOf,
  );
  const others = await startPeer(torch.python, [petastorm, torch.packages].join(':'), records, 0);
  const tensorflow = await tensorflowonspark((python, packages, workers) =>
    startPeer(python, packages, Math.ceil(records * FEWER), workers),
  );
  // The first round starts Spark's Python processes, and lets the JVM compile.
  for (let round = 0; round <= rounds; round++) {
    for (const turn of turns.filter((each) => !failures.has(each))) {
      const peer = turn.way === 'tensorflowonspark' ? tensorflow[turn.workers - 1] : others;
      const answer = peer === undefined ? { failure: 'its packages cannot be installed' } : await peer.run(turn);
      console.error(round, JSON.stringify({ ...turn, ...answer }));
      if ('failure' in answer) {
        failures.set(turn, answer.failure);
      } else if (round > 0) {
        measured.set(turn, [...(measured.get(turn) ?? []), answer]);
      }
    }
  }
} finally {
  await Promise.all(peers.map((peer) => peer.end()));
  await rm(folder, { recursive: true, force: true });
}
showFigures('spark', turns.flatMap(figuresOf), values.output);

/** Starts TensorFlowOnSpark with one worker and with two. Returns none if its packages cannot be installed. */
async function tensorflowonspark(start: (python: string, packages: string, workers: number) => Promise<Peer>): Promise<Peer[]> {
  try {
    const python = await sparkWithTensorflow();
    const packages = await packagesFor(python, path.resolve('.cache', 'tensorflowonspark-2.2.5'), TENSORFLOWONSPARK);
    return [await start(python, packages, 1), await start(python, packages, 2)];
  } catch (error) {
    console.error(`TensorFlowOnSpark cannot be installed: ${messageOf(error)}`);
    return [];
  }
}

/** Returns the rate of a way. For the feed, also returns its start, the CPU time of its ApplicationMaster, and its share of other rates. */
function figuresOf(turn: Turn): Figure[] {
  const name = `${turn.data}, ${turn.workers} worker${turn.workers === 1 ? '' : 's'}: ${turn.way}`;
  const own = measured.get(turn);
  if (own === undefined) {
    process.stderr.write(`${name} was not measured: ${failures.get(turn)}\n`);
    return [];
  }
  const rateOfWay = { what: name, value: rate(turn), unit: 'rows/s' };
  if (turn.way !== 'feed') {
    return [rateOfWay];
  }
  const master = median(own.flatMap(({ masterS }) => masterS ?? []));
  return [
    rateOfWay,
    { what: `${name}, start to first batch`, value: median(own.map(({ startS }) => startS)), unit: 's' },
    { what: `${name}, CPU time of the ApplicationMaster`, value: master, unit: 's', detail: `${own[0]?.rows} rows` },
    ...(['export', 'parquet', 'petastorm', 'tensorflowonspark'] as const).flatMap((way) => comparison(name, turn, way)),
  ];
}

function comparison(name: string, turn: Turn, way: keyof typeof GOALS | 'export' | 'petastorm'): Figure[] {
  const other = turns.find((each) => each.data === turn.data && each.workers === turn.workers && each.way === way);
  if (other === undefined || !measured.has(other)) {
    return [];
  }
  const goal = way in GOALS ? { atLeast: GOALS[way as keyof typeof GOALS] } : undefined;
  return [{ what: `${name} / ${way}`, value: rate(turn) / rate(other), unit: 'x', goal }];
}

function rate(turn: Turn): number {
  return median((measured.get(turn) ?? []).map(({ rowsPerS }) => rowsPerS));
}
