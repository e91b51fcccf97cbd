/**
 * `npm run bench -- data [--rounds N] [--mebibytes N] [--only read|parse|tables] [--output json]`: measures three things. Reading: records from
 * HDFS, compared with the raw bytes of the same file through the same storage client and through curl. Parsing: tf.train.Examples, compared
 * with TensorFlow's tf.data in Python on the same local file. Tables: a local Parquet file, compared with pyarrow. The measurements alternate within one run; the results are medians. Uses the
 * local cluster, and starts one if none is running.
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { stat } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs, promisify } from 'node:util';
import { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { pythonWith } from '../integration-tests/python-environment.ts';
import { createRandom } from '../platform/random.ts';
import { createStorage } from '../storage/create-storage.ts';
import { fileUri } from '../storage/uri.ts';
import { encodeExample } from '../training/data/formats/example.ts';
import { fixedLenFeature, parseExample } from '../training/data/formats/parse-example.ts';
import { writeTfRecords } from '../training/data/formats/tfrecord-writer.ts';
import { parquet, tfRecords } from '../training/data/sources/sources.ts';
import { openCluster } from './bench-cluster.ts';
import { median } from './median.ts';
import { tensorflowPython } from './peers/tensorflow.ts';

const execute = promisify(execFile);
const USER = 'alice';
const MIB = 1024 * 1024;
const TARGET = 0.8;
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

const { cluster, folder, close } = await openCluster('data', progress);
Object.assign(process.env, cluster.environment());
const storage = createStorage({ hadoop: await HadoopConfiguration.fromEnvironment(), user: USER });
const remote = `hdfs:///user/${USER}/bench-data`;
try {
  const kinds = Object.keys(KINDS) as (keyof typeof KINDS)[];
  for (const kind of values.only === 'tables' ? [] : kinds) {
    await writeData(kind);
  }
  const python = ['', 'tables'].includes(values.only) ? await writeTable() : null;
  const tables: Measurement[][] = [];
  const reading: Measurement[][] = [];
  const parsing: Record<string, Measurement[][]> = {};
  for (let round = 0; round <= rounds; round++) {
    const isWarm = round > 0;
    if (python !== null) {
      const read = [await readTable(), ...(await readTableByPython(python))];
      if (isWarm) {
        tables.push(read);
      }
    }
    if (['', 'read'].includes(values.only)) {
      const read = [await readBytes(), await readByCurl(), await readRecords(), await readExamples()];
      if (isWarm) {
        reading.push(read);
      }
    }
    for (const kind of ['', 'parse'].includes(values.only) ? kinds : []) {
      const parsed = [await parseHere(kind), ...(await parseByPython(kind))];
      parsing[kind] ??= [];
      if (isWarm) {
        parsing[kind].push(parsed);
      }
    }
    progress(isWarm ? `round ${round} of ${rounds}` : 'warm');
  }
  if (tables.length > 0) {
    report('tables', 'snappy', tables);
  }
  if (reading.length > 0) {
    report('read', 'image', reading);
  }
  for (const kind of kinds) {
    if (parsing[kind] !== undefined) {
      report('parse', kind, parsing[kind]);
    }
  }
} finally {
  await storage.remove(remote).catch(() => false);
  storage.close();
  await close();
}

function noise(random: () => number, length: number): Uint8Array {
  return Uint8Array.from({ length }, () => Math.floor(random() * 256));
}

function localFile(kind: keyof typeof KINDS): string {
  return path.join(folder, `${kind}.tfrecord`);
}

async function writeData(kind: keyof typeof KINDS): Promise<void> {
  const random = createRandom(1);
  const some = Array.from({ length: 512 }, () => KINDS[kind].encode(random));
  const records = function* () {
    for (let written = 0, index = 0; written < bytes; index++) {
      const record = some[index % some.length] as Buffer;
      written += record.length + 16;
      yield record;
    }
  };
  await writeTfRecords(storage, fileUri(localFile(kind)), records());
  if (kind === 'image') {
    await storage.write(`${remote}/${kind}.tfrecord`, (await storage.open(fileUri(localFile(kind)))) as AsyncIterable<Uint8Array>);
  }
}

async function timed(name: string, file: string, work: () => Promise<unknown>): Promise<Measurement> {
  const before = performance.now();
  await work();
  return { name, speed: (await stat(file)).size / MIB / ((performance.now() - before) / 1000) };
}

async function readBytes(): Promise<Measurement> {
  return await timed('bytes, with the same storage client', localFile('image'), async () => {
    for await (const _ of await storage.open(`${remote}/image.tfrecord`)) {
    }
  });
}

async function readByCurl(): Promise<Measurement> {
  const url = `${cluster.nameNode}/webhdfs/v1/user/${USER}/bench-data/image.tfrecord?op=OPEN&user.name=${USER}`;
  return await timed('bytes, with curl', localFile('image'), () => execute('curl', ['-sfL', '-o', '/dev/null', url]));
}

async function readRecords(): Promise<Measurement> {
  return await timed('records, checksums verified', localFile('image'), async () => {
    for await (const _ of tfRecords(`${remote}/image.tfrecord`).read({ storage })) {
    }
  });
}

async function readExamples(): Promise<Measurement> {
  return await timed('batches of parsed examples', localFile('image'), async () => {
    const examples = tfRecords(`${remote}/image.tfrecord`).map(parseExample(KINDS.image.schema));
    for await (const _ of examples.batch(BATCH).prefetch(2).read({ storage })) {
    }
  });
}

async function parseHere(kind: keyof typeof KINDS): Promise<Measurement> {
  return await timed('tony-ts: parse, batch', localFile(kind), async () => {
    for await (const _ of tfRecords(localFile(kind)).map(parseExample(KINDS[kind].schema)).batch(BATCH).read({ storage })) {
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
for name, ds in (('parse, batch', bounded(one(None))), ('batch, parse', bounded(many(None))), ('batch, parse, AUTOTUNE', many(tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE))):
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
    measurements.push({ name: `tf.data in Python: ${name}`, speed: size / Number(seconds) });
  }
  const [exitCode] = await ended;
  if (exitCode !== 0) {
    throw new Error(`TensorFlow in Python ended with ${exitCode}`);
  }
  return measurements;
}

/** Writes rows of 784 floats and a label with pyarrow, and returns its interpreter. */
async function writeTable(): Promise<string> {
  const python = await pythonWith(path.resolve('.cache', 'benchmarks', 'pyarrow-26.0.1'), ['pyarrow==26.0.1', 'numpy'], progress);
  const script = `
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
rows = ${Math.floor(bytes / (785 * 4))}
values = np.random.default_rng(1).random(rows * 784, dtype=np.float32)
features = pa.FixedSizeListArray.from_arrays(pa.array(values), 784)
table = pa.table({'features': features, 'label': pa.array(np.arange(rows) % 10)})
pq.write_table(table, '${tableFile()}', compression='snappy', row_group_size=4096)
`;
  await execute(python, ['-c', script]);
  return python;
}

function tableFile(): string {
  return path.join(folder, 'table.parquet');
}

async function readTable(): Promise<Measurement> {
  return await timed('tony-ts: read, batch', tableFile(), async () => {
    for await (const _ of parquet(tableFile()).batch(BATCH).read({ storage })) {
    }
  });
}

async function readTableByPython(python: string): Promise<Measurement[]> {
  const script = `
import time, pyarrow as pa, pyarrow.parquet as pq
pa.set_cpu_count(1)
pa.set_io_thread_count(1)
before = time.perf_counter()
for batch in pq.ParquetFile('${tableFile()}').iter_batches(batch_size=${BATCH}):
    batch.column(0).flatten().to_numpy()
print(time.perf_counter() - before)
`;
  const { stdout } = await execute(python, ['-c', script]);
  return [{ name: 'pyarrow, one thread', speed: (await stat(tableFile())).size / MIB / Number(stdout) }];
}

function report(type: 'read' | 'parse' | 'tables', kind: string, samples: readonly (readonly Measurement[])[]): void {
  const names = samples[0]?.map(({ name }) => name) ?? [];
  const speeds = names.map((_, index) => median(samples.map((sample) => sample[index]?.speed ?? 0)));
  // Ratios are computed per round, because other load on the machine varies between rounds.
  const ratios = names.map((_, index) => median(samples.map((sample) => (sample[index]?.speed ?? 0) / (sample[0]?.speed ?? 1))));
  if (values.output === 'json') {
    names.forEach((name, index) => {
      console.log(JSON.stringify({ type: `data-${type}`, kind, name, mebibytesPerSecond: speeds[index], ratio: ratios[index] }));
    });
    return;
  }
  const what = { read: 'TFRecord file in HDFS', parse: `examples from a local file (${kind})`, tables: `local Parquet file (${kind})` }[
    type
  ];
  console.log(`\n${what}, ${bytes / MIB} MiB, medians of ${rounds}${' '.repeat(8)}MiB/s   of first`);
  names.forEach((name, index) => {
    const aimed = type === 'read' && name.startsWith('records');
    const verdict = aimed ? ((ratios[index] as number) >= TARGET ? `  ok (>= ${TARGET})` : `  below ${TARGET}`) : '';
    console.log(
      `${name.padEnd(44)} ${(speeds[index] as number).toFixed(0).padStart(6)} ${(ratios[index] as number).toFixed(2).padStart(8)}${verdict}`,
    );
  });
}
