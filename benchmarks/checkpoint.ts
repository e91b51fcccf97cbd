/**
 * `npm run bench -- checkpoint [--rounds N] [--mebibytes N] [--output json]`: measures how long a checkpoint blocks training, compared with
 * copying the same bytes in memory. Also measures how fast a checkpoint is written to HDFS, compared with `curl -T` to the same WebHDFS
 * server. The measurements alternate within one run; the results are medians. Uses the local cluster, and starts one if none is running.
 */
import { execFile, spawn } from 'node:child_process';
import { randomFillSync } from 'node:crypto';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import { ensureRuntime } from '../client/runtime/ensure-runtime.ts';
import type { StoredTensor } from '../contract/checkpoint/checkpoint-format.ts';
import { CheckpointStore } from '../contract/checkpoint/checkpoint-store.ts';
import { programEnvironment } from '../contract/process/program-environment.ts';
import { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import type { Cluster } from '../integration-tests/cluster/cluster.mjs';
import { createStorage } from '../storage/create-storage.ts';
import { openCluster } from './bench-cluster.ts';
import { type PauseRound, type PauseStart, trainWithCheckpoints } from './checkpoint/train-with-checkpoints.ts';
import { type Figure, showFigures } from './figures.ts';
import { median } from './median.ts';

const execute = promisify(execFile);
const USER = 'alice';
const MIB = 1024 * 1024;
const ORIGIN = { jobId: 'application_1_0001', generation: 1 };

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      rounds: { type: 'string', default: '7' },
      mebibytes: { type: 'string', default: '256' },
      output: { type: 'string', default: 'text' },
    },
  });
  const rounds = Math.max(1, Number(values.rounds));
  const mebibytes = Math.max(1, Number(values.mebibytes));
  const progress = (line: string): void => void process.stderr.write(`${line}\n`);
  const { tree } = await ensureRuntime(progress);
  const { cluster, folder, close } = await openCluster('checkpoint', progress);
  Object.assign(process.env, cluster.environment());
  const storage = createStorage({ hadoop: await HadoopConfiguration.fromEnvironment(), user: USER });
  const remote = `hdfs:///user/${USER}/bench-checkpoint`;
  try {
    const pauses = await measurePauses(tree, { dir: `${remote}/training`, user: USER, rounds, mebibytes }, progress);
    const tensors = tensorsOf(mebibytes);
    const file = path.join(folder, 'tensors.bin');
    await writeFile(
      file,
      tensors.map(({ bytes }) => bytes),
    );
    const store = new CheckpointStore(storage, `${remote}/upload`);
    const uploads: { ours: number; theirs: number }[] = [];
    for (let round = 0; round <= rounds; round++) {
      const ours = await secondsOf(() => store.save({ position: positionOf(round), tensors }, ORIGIN));
      const theirs = await secondsOf(() => uploadByCurl(cluster, file));
      await storage.remove(`${remote}/upload`);
      if (round > 0) {
        uploads.push({ ours, theirs });
      }
      progress(round === 0 ? 'upload: warm' : `upload: round ${round} of ${rounds}`);
    }
    showFigures('checkpoint', compare(pauses, uploads, mebibytes), values.output);
  } finally {
    await storage.remove(remote).catch(() => false);
    storage.close();
    await close();
  }
}

/** Runs the training in a separate process, with the runtime that jobs use. */
async function measurePauses(tree: string, start: PauseStart, progress: (line: string) => void): Promise<PauseRound[]> {
  const environment = { ...process.env, HADOOP_USER_NAME: USER, TF_CPP_MIN_LOG_LEVEL: '2' };
  const env = { ...environment, ...programEnvironment(path.resolve('dist', 'container'), tree, environment) };
  const child = spawn(path.join(tree, 'bin', 'node'), [fileURLToPath(import.meta.url), 'train', JSON.stringify(start)], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'close');
  const rounds: PauseRound[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    rounds.push(JSON.parse(line) as PauseRound);
    progress(`pause: round ${rounds.length} of ${start.rounds}`);
  }
  const [exitCode] = await ended;
  if (exitCode !== 0) {
    throw new Error(`the training process ended with ${exitCode}`);
  }
  return rounds;
}

/** Creates a few large tensors and many small ones, as in a real model. The bytes are random and therefore incompressible. */
function tensorsOf(mebibytes: number): StoredTensor[] {
  const all = new Uint8Array(mebibytes * MIB);
  randomFillSync(all);
  const tensors: StoredTensor[] = [];
  for (let at = 0; at < all.length; ) {
    const size = Math.min(all.length - at, tensors.length % 2 === 0 ? 16 * MIB : 4096);
    tensors.push({ name: `model:${tensors.length}:w`, dtype: 'float32', shape: [size / 4], bytes: all.subarray(at, at + size) });
    at += size;
  }
  return tensors;
}

function positionOf(step: number) {
  return { step, phase: { name: 'fit-1', start: 0 }, epoch: 0, examples: 0, seed: 1, iterations: step, final: false };
}

async function uploadByCurl(cluster: Cluster, file: string): Promise<void> {
  const url = `${cluster.nameNode}/webhdfs/v1/user/${USER}/bench-checkpoint/upload/curl.bin?op=CREATE&overwrite=true&user.name=${USER}`;
  await execute('curl', ['-sf', '-L', '-T', file, url]);
}

async function secondsOf(work: () => Promise<unknown>): Promise<number> {
  const before = performance.now();
  await work();
  return (performance.now() - before) / 1000;
}

function compare(pauses: readonly PauseRound[], uploads: readonly { ours: number; theirs: number }[], mebibytes: number): Figure[] {
  // Ratios are computed per round, because other load on the machine varies between rounds.
  const comparison = (what: string, pairs: readonly (readonly [number, number])[], unit: string): Figure => ({
    what,
    value: median(pairs.map(([one, other]) => one / other)),
    unit: 'x',
    detail: `${[0, 1].map((side) => median(pairs.map((pair) => pair[side] as number)).toFixed(1)).join(' / ')} ${unit}`,
  });
  const curl = median(uploads.map(({ theirs }) => mebibytes / theirs));
  const copied = median(pauses.map(({ mebibytes: each }) => each)).toFixed(0);
  return [
    {
      ...comparison(
        `training pause / plain copy of ${copied} MiB`,
        pauses.map(({ pause, copy }) => [pause, copy]),
        'ms',
      ),
      goal: { atMost: 1 },
    },
    {
      ...comparison(
        'a step during an upload / without one',
        pauses.map(({ stepBeside, stepAlone }) => [stepBeside, stepAlone]),
        'ms',
      ),
      goal: { atMost: 1.05 },
    },
    {
      ...comparison(
        'checkpoint to HDFS / curl -T',
        uploads.map(({ ours, theirs }) => [mebibytes / ours, mebibytes / theirs]),
        'MiB/s',
      ),
      goal: { atLeast: 0.9 },
    },
    comparison(
      'checkpoint to HDFS during training / curl -T',
      pauses.map(({ mebibytes: each, upload }) => [(each / upload) * 1000, curl]),
      'MiB/s',
    ),
  ];
}

if (process.argv[2] === 'train') {
  await trainWithCheckpoints(JSON.parse(process.argv[3] as string) as PauseStart);
} else {
  await main();
}
