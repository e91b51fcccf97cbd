import { cp, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ensureRuntime } from '../client/runtime/ensure-runtime.ts';
import type { JobStatus } from '../conf/status/status.ts';
import { parseIdx } from '../contract/encoding/idx.ts';
import { programEnvironment } from '../contract/process/program-environment.ts';
import { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { createStorage } from '../storage/create-storage.ts';
import type { Storage } from '../storage/storage.ts';
import { encodeExample } from '../training/data/formats/example.ts';
import { writeTfRecords } from '../training/data/formats/tfrecord-writer.ts';
import { jsonl } from '../training/data/sources/sources.ts';
import { signal } from './cluster/processes.mjs';
import { ROOT, startCommand } from './command.ts';
import { execute } from './execute.ts';
import { noneLeft, temporaryFolder, USER, until, useCluster } from './harness.ts';
import { MNIST } from './small-mnist.ts';

const cluster = useCluster();

interface Result {
  readonly label: number;
  readonly digit: number;
}

interface Manifest {
  readonly records: number;
  readonly parts: readonly { readonly name: string; readonly records: number }[];
}

async function labels(): Promise<number[]> {
  return [...parseIdx(await readFile(path.join(MNIST, 't10k-labels-idx1-ubyte')), 'labels').values];
}

let trained: string;
let model: string;
beforeAll(async () => {
  trained = await mkdtemp(path.join(tmpdir(), 'tony-ts-predict-test-'));
  model = await trainedModel(trained);
});
afterAll(() => rm(trained, { recursive: true, force: true }));

/** Trains the model of the example in a folder, and returns the path of the model. */
async function trainedModel(folder: string): Promise<string> {
  const source = path.join(folder, 'examples', 'batch-inference');
  await cp(path.join(ROOT, 'examples', 'batch-inference'), source, { recursive: true });
  await symlink(path.join(ROOT, 'node_modules'), path.join(folder, 'node_modules'));
  const { tree } = await ensureRuntime();
  const environment = programEnvironment(path.join(ROOT, 'dist', 'container'), tree, { PATH: process.env.PATH ?? '' });
  const { stdout } = await execute(path.join(tree, 'bin', 'node'), ['train.ts'], {
    cwd: source,
    env: { ...process.env, ...environment },
  }).catch((error: Error & { stderr?: string }) => {
    throw new Error(`train.ts: ${error.stderr}`);
  });
  expect(stdout).toContain('model/model.json: 50890 weights');
  return path.join(source, 'model');
}

/** Copies the example with a trained model. `change` changes the script, whose programs record their pids. */
async function example(
  change: (script: string) => string = (script) => script,
): Promise<{ source: string; pids: string; words: string[] }> {
  const folder = await temporaryFolder();
  const source = path.join(folder, 'examples', 'batch-inference');
  const pids = path.join(folder, 'pids');
  await cp(path.join(ROOT, 'examples', 'batch-inference'), source, { recursive: true });
  await mkdir(pids);
  const script = path.join(source, 'predict.ts');
  const plain = await readFile(script, 'utf8');
  await writeFile(
    script,
    `import { writeFileSync } from 'node:fs';\n${change(plain)}`.replace(
      'const model =',
      `writeFileSync('${pids}/' + cluster.index + '-' + process.pid, '');\nconst model =`,
    ),
  );
  await cp(model, path.join(source, 'model'), { recursive: true });
  return {
    source,
    pids,
    words: ['--conf', path.join(source, 'job.yaml'), '--set', `data.mnist=${MNIST}`, '--set', 'heartbeat.interval=500ms'],
  };
}

async function programOf(index: number, pids: string): Promise<number> {
  const names = (await readdir(pids)).filter((name) => name.startsWith(`${index}-`));
  const times = await Promise.all(names.map(async (name) => ({ name, at: (await stat(path.join(pids, name))).mtimeMs })));
  return Number(times.sort((a, b) => b.at - a.at)[0]?.name.split('-')[1]);
}

const partsIn = (names: readonly string[]): string[] => names.filter((name) => name.startsWith('part-')).sort();

async function expectPredictions(storage: Storage, uri: string): Promise<void> {
  const manifest = JSON.parse((await storage.read(`${uri}/_SUCCESS`)).toString()) as Manifest;
  expect(manifest.records).toBe(10_000);
  const names = (await storage.list(uri)).map(({ name }) => name);
  expect(names).toEqual(['_PREDICT', '_SUCCESS', ...manifest.parts.map(({ name }) => name)]);
  const results = await jsonl<Result>(`${uri}/part-*`).toArray({ storage });
  expect(results.map(({ label }) => label)).toEqual(await labels());
  expect(results.filter(({ label, digit }) => label === digit).length).toBeGreaterThan(9300);
}

test('two local workers predict all records, and a second job repeats no work', async () => {
  const { source, words } = await example();
  const root = await temporaryFolder();
  const output = path.join(root, 'predictions');
  const submit = [...words, '--set', `env.OUTPUT=${output}`, '--local', '--output', 'json'];
  const env = { TONY_LOCAL_DIR: path.join(root, 'jobs'), HADOOP_CONF_DIR: undefined };
  const parts = () => readdir(output).then(partsIn);
  const { stderr, exitCode } = await startCommand(['submit', ...submit], { env }).result;
  expect({ stderr, exitCode }).toMatchObject({ exitCode: 0 });
  const storage = createStorage({ hadoop: null, user: USER });
  await expectPredictions(storage, `file://${output}`);
  const times = await Promise.all((await parts()).map(async (name) => (await stat(path.join(output, name))).mtimeMs));
  const again = await startCommand(['submit', ...submit], { env }).result;
  expect(again.exitCode).toBe(0);
  expect(await Promise.all((await parts()).map(async (name) => (await stat(path.join(output, name))).mtimeMs))).toEqual(times);
  await writeFile(
    path.join(source, 'predict.ts'),
    (await readFile(path.join(source, 'predict.ts'), 'utf8')).replace('batchSize: 256', "batchSize: 256, version: 'b'"),
  );
  const other = await startCommand(['submit', ...submit, '--set', 'roles.worker.restart.policy=never'], { env }).result;
  expect(other.exitCode).toBe(1);
  expect(other.stdout).toContain('contains results of another model or function');
});

let hdfs: Storage;
beforeAll(async () => {
  hdfs = createStorage({ hadoop: await HadoopConfiguration.fromEnvironment(cluster.environment()), user: USER });
});
afterAll(() => hdfs.close());

test('workers on a cluster predict all TFRecords on HDFS although a program and a container are killed', async () => {
  const folder = `hdfs:///user/${USER}/predict-test`;
  const images = parseIdx(await readFile(path.join(MNIST, 't10k-images-idx3-ubyte')), 'images').values;
  const records = (await labels()).map((label, index) =>
    encodeExample({ image: Uint8Array.from(images.subarray(index * 784, (index + 1) * 784)), label: BigInt(label) }),
  );
  const FILES = 20;
  for (let file = 0; file < FILES; file++) {
    await writeTfRecords(hdfs, `${folder}/in/test-${String(file).padStart(2, '0')}.gz`, records.slice(file * 500, (file + 1) * 500), {
      compression: 'gzip',
    });
  }
  const { pids, words } = await example((script) =>
    script
      .replace('import { data,', 'import { data, fixedLenFeature, parseExample,')
      .replace(/const files = .*\n/, '')
      .replace(
        /const examples = data\.idx.*\n?.*splitBytes: 500_000 \}\);/,
        `const schema = { image: fixedLenFeature([], 'string'), label: fixedLenFeature([], 'int64') };
const examples = data.tfRecords('${folder}/in')
  .map(parseExample(schema))
  .map(({ image, label }) => new Promise<Example>((done) => setTimeout(done, 2, { image: { values: image, shape: [28, 28] }, label })));`,
      ),
  );
  const submit = [
    'submit',
    ...words,
    '--set',
    `env.OUTPUT=${folder}/out`,
    '--set',
    'roles.worker.instances=3',
    '--set',
    'master.resources.memory=512m',
  ];
  const { stdout, stderr, exitCode } = await cluster.run([...submit, '--detach']);
  expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: 0 });
  const id = /application_\d+_\d+/.exec(stdout)?.[0] ?? '';
  const parts = async () => partsIn((await hdfs.list(`${folder}/out`)).map(({ name }) => name));
  const describe = async () => ({ application: await cluster.application(id), parts: await parts(), pids: await readdir(pids) });
  const first = await until(async () => (await parts()).length >= 3 && (await programOf(1, pids)), {
    describe,
    everyMs: 50,
  });
  process.kill(first, 'SIGKILL');
  const second = await until(async () => (await parts()).length >= 7 && (await programOf(2, pids)), {
    describe,
    everyMs: 50,
  });
  const processes = await cluster.containers(id);
  const container = processes.find(({ pid }) => pid === second)?.containerId;
  for (const { pid } of processes.filter(({ containerId }) => containerId === container)) {
    signal(pid, 'SIGKILL');
  }
  const application = await cluster.ended(id);
  expect(application).toMatchObject({ finalStatus: 'SUCCEEDED' });
  await noneLeft(cluster, id);
  const final = JSON.parse((await cluster.hdfsRead(`/user/${USER}/.tony-ts/history/${id}/final.json`)).toString()) as JobStatus;
  expect(final.tasks.map(({ index, failures }) => [index, failures])).toEqual([
    [0, 0],
    [1, 1],
    [2, 1],
  ]);
  await expectPredictions(hdfs, `${folder}/out`);
  await hdfs.remove(folder);
});
