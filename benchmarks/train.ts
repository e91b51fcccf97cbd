/**
 * `npm run bench -- train [--rounds N] [--models mlp,cnn] [--without-tensorflow] [--output json]`: measures examples per second and
 * process, with one thread per process. All variants train the same networks on the same data (adam, batches of 64). The variants are `fit`,
 * `fit` without compiled steps, `fit` with TensorFlow.js's own kernels, a loop without `fit`, and TensorFlow. Each variant runs with one process,
 * with two processes that exchange gradients, and with two independent processes. The variants alternate within one run. Each ratio
 * compares adjacent measurements of one round, by wall-clock time and by CPU time. The results are medians over the rounds. Other load on
 * the machine affects CPU time less than wall-clock time, but CPU time excludes the time that a process waits for another process.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { ensureRuntime } from '../client/runtime/ensure-runtime.ts';
import { programEnvironment } from '../contract/process/program-environment.ts';
import { atLeast, type Figure, showFigures } from './figures.ts';
import { freePort } from './free-port.ts';
import { median } from './median.ts';
import { tensorflowPython } from './peers/tensorflow.ts';
import { BATCH, INPUTS, type ModelKind, type RankStart, type Seconds, trainRank } from './training/train-rank.ts';

const KINDS: readonly ModelKind[] = ['mlp', 'cnn', 'lstm'];
/** Number of steps per measurement, which takes a few seconds. */
const STEPS: Readonly<Record<ModelKind, number>> = { mlp: 600, cnn: 24, lstm: 60 };

interface Contender {
  /** Measures once, and returns the rate of the slowest process. */
  run(steps: number): Promise<Rate>;
  close(): Promise<void>;
}

/** Examples per second and process. */
interface Rate {
  readonly wall: number;
  readonly processor: number;
}

/** Ratio of this library's speed to the other variant's speed, and the required minimum. */
const RATIOS: readonly {
  readonly ours: string;
  readonly theirs: string;
  readonly what: string;
  readonly goal: Partial<Record<ModelKind, number>>;
}[] = [
  { ours: 'fit', theirs: 'own', what: "fit / fit with TensorFlow.js's own kernels", goal: {} },
  { ours: 'fit', theirs: 'separate', what: 'compiled steps / separate operations', goal: {} },
  { ours: 'separate', theirs: 'loop', what: 'fit without compiled steps / a loop without fit', goal: { mlp: 0.97, cnn: 0.97, lstm: 0.97 } },
  { ours: 'fit', theirs: 'tensorflow', what: "fit, 1 worker / TensorFlow's fit", goal: { mlp: 1.2, cnn: 1 } },
  { ours: 'fit2', theirs: 'mirrored2', what: 'fit, 2 workers / MultiWorkerMirroredStrategy', goal: { mlp: 2.3, cnn: 1.2 } },
  { ours: 'fit2', theirs: 'tensorflow2', what: 'fit, 2 workers / 2 separate TensorFlow processes', goal: { mlp: 0.7, cnn: 0.85 } },
];

/** A process that responds to each input line with an output line. */
class Worker {
  readonly #child: ChildProcess;
  readonly #lines: Interface;
  readonly #waiting: ((line: string | null) => void)[] = [];
  #errors = '';
  #ended = false;

  constructor(command: string, args: readonly string[], env: Record<string, string | undefined>) {
    this.#child = spawn(command, args, { env, stdio: ['pipe', 'pipe', 'pipe'] });
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#errors = (this.#errors + text).slice(-4000);
    });
    this.#lines = createInterface({ input: this.#child.stdout as NodeJS.ReadableStream });
    this.#lines.on('line', (line) => this.#waiting.shift()?.(line));
    this.#child.once('exit', () => {
      this.#ended = true;
      for (const tell of this.#waiting.splice(0)) {
        tell(null);
      }
    });
  }

  send(line: string): void {
    this.#child.stdin?.write(`${line}\n`);
  }

  async answer(): Promise<string> {
    const line = await new Promise<string | null>((resolve) => {
      if (this.#ended) {
        resolve(null);
      } else {
        this.#waiting.push(resolve);
      }
    });
    if (line === null) {
      throw new Error(`a training process has ended:\n${this.#errors}`);
    }
    return line;
  }

  async ask(line: string): Promise<string> {
    this.send(line);
    return await this.answer();
  }

  async close(): Promise<void> {
    if (!this.#ended) {
      const exited = once(this.#child, 'exit');
      this.#child.stdin?.end();
      this.#child.kill();
      await exited;
    }
  }
}

async function contenderOf(workers: readonly Worker[]): Promise<Contender> {
  await Promise.all(workers.map((worker) => worker.answer()));
  return {
    async run(steps) {
      const answers = await Promise.all(workers.map((worker) => worker.ask(String(steps))));
      const seconds = answers.map((line) => JSON.parse(line) as Seconds);
      const slowest = (clock: keyof Seconds) => (steps * BATCH) / Math.max(...seconds.map((each) => each[clock]));
      return { wall: slowest('wall'), processor: slowest('processor') };
    },
    async close() {
      await Promise.all(workers.map((worker) => worker.close()));
    },
  };
}

const ONE_THREAD = { TF_NUM_INTRAOP_THREADS: '1', TF_NUM_INTEROP_THREADS: '1', OMP_NUM_THREADS: '1', TF_CPP_MIN_LOG_LEVEL: '2' };

async function ours(mode: RankStart['mode'], kind: ModelKind, data: string, tree: string, size = 1): Promise<Contender> {
  const ports = await Promise.all(Array.from({ length: size }, freePort));
  const key = randomBytes(32).toString('base64');
  const workers = ports.map((_, rank) => {
    const environment = { ...process.env, ...ONE_THREAD, ...(mode === 'own' && { TONY_NATIVE_KERNELS: 'off' }) };
    const env = { ...environment, ...programEnvironment(path.resolve('dist', 'container'), tree, environment) };
    const worker = new Worker(path.join(tree, 'bin', 'node'), [fileURLToPath(import.meta.url), 'rank'], env);
    worker.send(JSON.stringify({ mode, kind, data, rank, ports, key } satisfies RankStart));
    return worker;
  });
  return await contenderOf(workers);
}

async function tensorflow(kind: ModelKind, data: string, python: string, size: number, mirrored: boolean): Promise<Contender> {
  const ports = await Promise.all(Array.from({ length: size }, freePort));
  const program = path.resolve('benchmarks', 'peers', 'tensorflow-training.py');
  const workers = ports.map((_, index) => {
    const cluster = { cluster: { worker: ports.map((port) => `127.0.0.1:${port}`) }, task: { type: 'worker', index } };
    const env = { ...process.env, ...ONE_THREAD, ...(mirrored && { TF_CONFIG: JSON.stringify(cluster) }) };
    return new Worker(python, [program, kind, data, mirrored ? 'mirrored' : 'alone'], env);
  });
  return await contenderOf(workers);
}

/** Writes the data for all variants: noise images, each with one of ten labels. */
async function writeData(folder: string, kind: ModelKind): Promise<void> {
  const examples = kind === 'cnn' ? 2048 : 8192;
  let state = 1;
  const next = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  const width = INPUTS[kind].reduce((product, size) => product * size, 1);
  const x = Float32Array.from({ length: examples * width }, next);
  const y = new Float32Array(examples * 10);
  for (let example = 0; example < examples; example++) {
    y[example * 10 + Math.floor(next() * 10)] = 1;
  }
  await writeFile(path.join(folder, 'x.f32'), x);
  await writeFile(path.join(folder, 'y.f32'), y);
}

type Rates = Readonly<Record<string, readonly Rate[]>>;

async function measure(kind: ModelKind, rounds: number, withTensorflow: boolean, folder: string): Promise<Rates> {
  const { tree } = await ensureRuntime(progress);
  const python = withTensorflow ? await tensorflowPython(progress) : null;
  await writeData(folder, kind);
  const contenders: Record<string, Contender> = {};
  const rates: Record<string, Rate[]> = {};
  try {
    contenders.fit = await ours('fit', kind, folder, tree);
    if (python !== null) {
      contenders.tensorflow = await tensorflow(kind, folder, python, 1, false);
    }
    contenders.separate = await ours('separate', kind, folder, tree);
    contenders.own = await ours('own', kind, folder, tree);
    contenders.loop = await ours('loop', kind, folder, tree);
    contenders.fit2 = await ours('fit', kind, folder, tree, 2);
    if (python !== null) {
      contenders.mirrored2 = await tensorflow(kind, folder, python, 2, true);
      contenders.tensorflow2 = await tensorflow(kind, folder, python, 2, false);
    }
    for (const contender of Object.values(contenders)) {
      await contender.run(10);
    }
    for (let round = 1; round <= rounds; round++) {
      for (const [name, contender] of Object.entries(contenders)) {
        const rate = await contender.run(STEPS[kind]);
        rates[name] = [...(rates[name] ?? []), rate];
      }
      progress(
        `${kind}, round ${round} of ${rounds}: ${Object.entries(rates)
          .map(([name, all]) => `${name} ${all.at(-1)?.wall.toFixed(0)}`)
          .join(', ')}`,
      );
    }
  } finally {
    await Promise.all(Object.values(contenders).map((contender) => contender.close()));
  }
  return rates;
}

function progress(line: string): void {
  process.stderr.write(`${line}\n`);
}

function figuresOf(kind: ModelKind, rates: Rates): Figure[] {
  const rate = (all: readonly Rate[]): string => median(all.map(({ wall }) => wall)).toFixed(0);
  return RATIOS.flatMap(({ ours, theirs, what, goal }) => {
    const [one, other] = [rates[ours], rates[theirs]];
    if (one === undefined || other === undefined) {
      return [];
    }
    const ratio = (clock: keyof Rate): number => median(one.map((each, round) => each[clock] / (other[round] as Rate)[clock]));
    const detail = `${rate(one)} / ${rate(other)} examples/s, ${ratio('processor').toFixed(2)} by CPU time`;
    return [{ what: `${kind}: ${what}`, value: ratio('wall'), unit: 'x', goal: atLeast(goal[kind]), detail }];
  });
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      rounds: { type: 'string', default: '5' },
      models: { type: 'string', default: KINDS.join() },
      'without-tensorflow': { type: 'boolean', default: false },
      output: { type: 'string', default: 'text' },
    },
  });
  for (const kind of KINDS.filter((each) => values.models.split(',').includes(each))) {
    // The folder is kept, because every run uses the same data.
    const folder = path.resolve('.cache', 'benchmarks', 'training-data', kind);
    await mkdir(folder, { recursive: true });
    const rates = await measure(kind, Math.max(1, Number(values.rounds)), !values['without-tensorflow'], folder);
    showFigures('train', figuresOf(kind, rates), values.output);
  }
}

await (process.argv[2] === 'rank' ? trainRank() : main());
