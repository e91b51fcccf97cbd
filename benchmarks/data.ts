/**
 * `npm run bench -- data [--rounds N] [--mebibytes N] [--only read|parse|tables|csv] [--output json]`: measures four things. Reading:
 * records from HDFS, compared with the raw bytes of the same file through the same storage client and through curl; uses the local cluster,
 * and starts one if none is running. Parsing: tf.train.Examples, compared with TensorFlow's tf.data in Python on the same local file.
 * Tables: a local Parquet file, compared with pyarrow. CSV: a local file, compared with pandas. pyarrow and pandas read the file twice in a
 * new process, because the first pass also loads their code. The measurements alternate within one run; the results are medians.
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs, promisify } from 'node:util';
import { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { sparkEnvironment } from '../integration-tests/spark-environment.ts';
import { createRandom } from '../platform/random.ts';
import { createStorage } from '../storage/create-storage.ts';
import { FileStorage } from '../storage/file-storage.ts';
import type { Storage } from '../storage/storage.ts';
import { fileUri } from '../storage/uri.ts';
import { encodeExample } from '../training/data/formats/example.ts';
import { fixedLenFeature, parseExample } from '../training/data/formats/parse-example.ts';
import { writeTfRecords } from '../training/data/formats/tfrecord-writer.ts';
import { csv, parquet, tfRecords } from '../training/data/sources/sources.ts';
import { openCluster } from './bench-cluster.ts';
import { atLeast, type Figure, showFigures } from './figures.ts';
import { median } from './median.ts';
import { tensorflowPython } from './peers/tensorflow.ts';

const execute = promisify(execFile);
const USER = 'alice';
const MIB = 1024 * 1024;
/** Least ratios, by measurement. */
const GOALS: Readonly<Record<string, number>> = {
  'Parquet: pyarrow, one thread, first pass': 0.6,
  'Parquet: pyarrow, one thread, second pass': 0.6,
  'CSV: pandas, first pass': 0.5,
  'CSV: pandas, second pass': 0.5,
  'read from HDFS: records': 0.9,
  'parse image: tf.data, AUTOTUNE': 1.4,
  'parse floats: tf.data, AUTOTUNE': 1,
};
const BATCH = 256;

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    mebibytes: { type: 'string', default: '256' },
    only: { type: 'string', default: '' },
    output: { type: 'string', default: 'text' },
  },
});
const rounds = Math.max(1, Number(values.rounds));
const bytes = Math.max(1, Number(values.mebibytes)) * MIB;
const progress = (line: string): void => void process.stderr.write(`${line}\n`);

interface Measurement {
  readonly name: string;
  /** MiB of the file per second. */
  readonly speed: number;
}

/** Record contents: one kind resembles a stored image, the other a table row. */
const KINDS = {
  image: {
    encode: (random: () => number) => encodeExample({ image: noise(random, 784), label: BigInt(Math.floor(random() * 10)) }),
    schema: { image: fixedLenFeature([], 'string'), label: fixedLenFeature([], 'int64') },
    python: "{'image': tf.io.FixedLenFeature([], tf.string), 'label': tf.io.FixedLenFeature([], tf.int64)}",
  },
  floats: {
    encode: (random: () => number) =>
      encodeExample({ features: Float32Array.from({ length: 784 }, random), label: BigInt(Math.floor(random() * 10)) }),
    schema: { features: fixedLenFeature([784], 'float32'), label: fixedLenFeature([], 'int64') },
    python: "{'features': tf.io.FixedLenFeature([784], tf.float32), 'label': tf.io.FixedLenFeature([], tf.int64)}",
  },
} as const;

/** Writes rows of 784 floats and a label as Parquet, and rows of 12 floats, 4 integers, a label and a word as CSV. */
const WRITE_TABLES = `
import sys, numpy as np, pandas as pd, pyarrow as pa, pyarrow.parquet as pq
random = np.random.default_rng(1)
rows = ${Math.floor(bytes / (785 * 4))}
features = pa.FixedSizeListArray.from_arrays(pa.array(random.random(rows * 784, dtype=np.float32)), 784)
table = pa.table({'features': features, 'label': pa.array(np.arange(rows) % 10)})
pq.write_table(table, sys.argv[1] + '/table.parquet', compression='snappy', row_group_size=4096)
rows = ${Math.floor(bytes / 640)}
floats = {f'f{n}': random.random(rows, dtype=np.float32) for n in range(12)}
integers = {f'i{n}': random.integers(0, 100000, rows) for n in range(4)}
others = {'label': np.arange(rows) % 10, 'word': random.choice(['red', 'green', 'blue'], rows)}
pd.DataFrame(floats | integers | others).to_csv(sys.argv[1] + '/table.csv', index=False)
`;

/** The statements of Python before the first pass, and those of each pass. */
const PYARROW = [
  'import pyarrow as pa, pyarrow.parquet as pq; pa.set_cpu_count(1); pa.set_io_thread_count(1)',
  `for batch in pq.ParquetFile(sys.argv[1] + '/table.parquet').iter_batches(batch_size=${BATCH}): batch.column(0).flatten().to_numpy()`,
] as const;
const PANDAS = ['import pandas', "pandas.read_csv(sys.argv[1] + '/table.csv')"] as const;

type Part = 'read' | 'parse' | 'tables' | 'csv';
const kinds = Object.keys(KINDS) as (keyof typeof KINDS)[];
const measures = (part: Part): boolean => ['', part].includes(values.only);
const local = new FileStorage();
await mkdir('.cache', { recursive: true });
const folder = await mkdtemp(path.resolve('.cache', 'data-'));
const remote = measures('read') ? await openRemote() : null;
try {
  if (measures('read') || measures('parse')) {
    for (const kind of kinds) {
      await writeRecords(kind);
    }
  }
  await remote?.write();
  if (measures('tables') || measures('csv')) {
    await inPython(WRITE_TABLES);
  }
  const samples = new Map<string, Measurement[][]>();
  const add = async (name: string, isWarm: boolean, measure: () => Promise<Measurement[]>): Promise<void> => {
    const measured = await measure();
    if (isWarm) {
      samples.set(name, [...(samples.get(name) ?? []), measured]);
    }
  };
  for (let round = 0; round <= rounds; round++) {
    const isWarm = round > 0;
    if (measures('tables')) {
      await add('Parquet', isWarm, async () => [
        await readTable(),
        ...(await readByPython('pyarrow, one thread', file('table.parquet'), PYARROW)),
      ]);
    }
    if (measures('csv')) {
      await add('CSV', isWarm, async () => [await readCsv(), ...(await readByPython('pandas', file('table.csv'), PANDAS))]);
    }
    if (remote !== null) {
      await add('read from HDFS', isWarm, () => remote.measure());
    }
    for (const kind of measures('parse') ? kinds : []) {
      await add(`parse ${kind}`, isWarm, async () => [await parseHere(kind), ...(await parseByPython(kind))]);
    }
    progress(isWarm ? `round ${round} of ${rounds}` : 'warm');
  }
  showFigures(
    'data',
    [...samples].flatMap(([name, measured]) => figuresOf(name, measured)),
    values.output,
  );
} finally {
  await remote?.close();
  await rm(folder, { recursive: true, force: true });
}

function file(name: string): string {
  return path.join(folder, name);
}

interface Remote {
  write(): Promise<void>;
  measure(): Promise<Measurement[]>;
  close(): Promise<void>;
}

/** Opens the cluster, from which the benchmark reads records. */
async function openRemote(): Promise<Remote> {
  const { cluster, close } = await openCluster('data', progress);
  Object.assign(process.env, cluster.environment());
  const storage = createStorage({ hadoop: await HadoopConfiguration.fromEnvironment(), user: USER });
  const target = `hdfs:///user/${USER}/bench-data`;
  return {
    write: async () => {
      await storage.write(`${target}/image.tfrecord`, (await local.open(fileUri(file('image.tfrecord')))) as AsyncIterable<Uint8Array>);
    },
    measure: async () => [
      await readBytes(storage, `${target}/image.tfrecord`),
      await readByCurl(`${cluster.nameNode}/webhdfs/v1/user/${USER}/bench-data/image.tfrecord?op=OPEN&user.name=${USER}`),
      await readRecords(storage, `${target}/image.tfrecord`),
      await readExamples(storage, `${target}/image.tfrecord`),
    ],
    close: async () => {
      await storage.remove(target).catch(() => false);
      storage.close();
      await close();
    },
  };
}

function noise(random: () => number, length: number): Uint8Array {
  return Uint8Array.from({ length }, () => Math.floor(random() * 256));
}

function localFile(kind: keyof typeof KINDS): string {
  return file(`${kind}.tfrecord`);
}

async function writeRecords(kind: keyof typeof KINDS): Promise<void> {
  const random = createRandom(1);
  const some = Array.from({ length: 512 }, () => KINDS[kind].encode(random));
  const records = function* () {
    for (let written = 0, index = 0; written < bytes; index++) {
      const record = some[index % some.length] as Buffer;
      written += record.length + 16;
      yield record;
    }
  };
  await writeTfRecords(local, fileUri(localFile(kind)), records());
}

async function timed(name: string, file: string, work: () => Promise<unknown>): Promise<Measurement> {
  const before = performance.now();
  await work();
  return { name, speed: (await stat(file)).size / MIB / ((performance.now() - before) / 1000) };
}

async function readBytes(storage: Storage, uri: string): Promise<Measurement> {
  return await timed('bytes', localFile('image'), async () => {
    for await (const _ of await storage.open(uri)) {
    }
  });
}

async function readByCurl(url: string): Promise<Measurement> {
  return await timed('bytes by curl', localFile('image'), () => execute('curl', ['-sfL', '-o', '/dev/null', url]));
}

async function readRecords(storage: Storage, uri: string): Promise<Measurement> {
  return await timed('records', localFile('image'), async () => {
    for await (const _ of tfRecords(uri).read({ storage })) {
    }
  });
}

async function readExamples(storage: Storage, uri: string): Promise<Measurement> {
  return await timed('parsed batches', localFile('image'), async () => {
    const examples = tfRecords(uri).map(parseExample(KINDS.image.schema));
    for await (const _ of examples.batch(BATCH).prefetch(2).read({ storage })) {
    }
  });
}

async function parseHere(kind: keyof typeof KINDS): Promise<Measurement> {
  return await timed('tony-ts', localFile(kind), async () => {
    for await (const _ of tfRecords(localFile(kind)).map(parseExample(KINDS[kind].schema)).batch(BATCH).read({ storage: local })) {
    }
  });
}

/**
 * Measures tf.data with parsing before batching, and with batching before parsing. Each order runs first on one thread, as in this library,
 * and then on all available threads.
 */
async function parseByPython(kind: keyof typeof KINDS): Promise<Measurement[]> {
  const python = await tensorflowPython(progress);
  const script = `
import time, tensorflow as tf
schema = ${KINDS[kind].python}
def one(parallel):
    return tf.data.TFRecordDataset('${localFile(kind)}').map(lambda r: tf.io.parse_single_example(r, schema), num_parallel_calls=parallel).batch(${BATCH})
def many(parallel):
    return tf.data.TFRecordDataset('${localFile(kind)}').batch(${BATCH}).map(lambda r: tf.io.parse_example(r, schema), num_parallel_calls=parallel)
def bounded(ds):
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    options.autotune.enabled = False
    return ds.with_options(options)
def drain(ds):
    before = time.perf_counter()
    for _ in ds: pass
    return time.perf_counter() - before
drain(many(None).take(10))
for name, ds in (('one thread, parse first', bounded(one(None))), ('one thread, batch first', bounded(many(None))), ('AUTOTUNE', many(tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE))):
    print(name + '|' + str(drain(ds)), flush=True)
`;
  const child = spawn(python, ['-c', script], {
    stdio: ['ignore', 'pipe', 'ignore'],
    env: { ...process.env, TF_CPP_MIN_LOG_LEVEL: '3', CUDA_VISIBLE_DEVICES: '' },
  });
  const ended = once(child, 'close');
  const size = (await stat(localFile(kind))).size / MIB;
  const measurements: Measurement[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    const [name, seconds] = line.split('|');
    measurements.push({ name: `tf.data, ${name}`, speed: size / Number(seconds) });
  }
  const [exitCode] = await ended;
  if (exitCode !== 0) {
    throw new Error(`TensorFlow in Python ended with ${exitCode}`);
  }
  return measurements;
}

async function readTable(): Promise<Measurement> {
  return await timed('tony-ts', file('table.parquet'), async () => {
    for await (const _ of parquet(file('table.parquet')).batch(BATCH).read({ storage: local })) {
    }
  });
}

async function readCsv(): Promise<Measurement> {
  return await timed('tony-ts', file('table.csv'), async () => {
    for await (const _ of csv(file('table.csv')).batch(BATCH).read({ storage: local })) {
    }
  });
}

/** Runs a pass of Python twice in one process, and measures each. */
async function readByPython(name: string, table: string, [setUp, pass]: readonly [string, string]): Promise<Measurement[]> {
  const script = `
import sys, time
${setUp}
for _ in range(2):
    before = time.perf_counter()
    ${pass}
    print(time.perf_counter() - before)
`;
  const size = (await stat(table)).size / MIB;
  const seconds = (await inPython(script)).trim().split('\n');
  return seconds.map((each, index) => ({ name: `${name}, ${index === 0 ? 'first' : 'second'} pass`, speed: size / Number(each) }));
}

async function inPython(script: string): Promise<string> {
  return (await execute(await sparkEnvironment(), ['-c', script, folder])).stdout;
}

/** Returns the ratio of speeds in each round. With HDFS, the other speeds are compared with that of bytes. */
function figuresOf(name: string, samples: readonly (readonly Measurement[])[]): Figure[] {
  const [first, ...others] = samples[0] ?? [];
  const speed = (at: number): number => median(samples.map((sample) => sample[at]?.speed ?? 0));
  return others.map((other, index) => {
    const at = index + 1;
    const pair = name.startsWith('read') ? ([at, 0] as const) : ([0, at] as const);
    const [one, two] = name.startsWith('read') ? [other.name, first?.name] : [first?.name, other.name];
    return {
      what: `${name}: ${one} / ${two}`,
      value: median(samples.map((sample) => (sample[pair[0]]?.speed ?? 0) / (sample[pair[1]]?.speed ?? 1))),
      unit: 'x',
      goal: atLeast(GOALS[`${name}: ${other.name}`]),
      detail: `${speed(pair[0]).toFixed(0)} / ${speed(pair[1]).toFixed(0)} MiB/s`,
    };
  });
}
