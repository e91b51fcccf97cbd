import { spawn } from 'node:child_process';
import { chmodSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import { openFeed } from '../client/feed/feed.ts';
import { localPaths } from '../client/files/local-layout.ts';
import { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { createStorage } from '../storage/create-storage.ts';
import { TONY_VARIABLES } from '../tools/program-contract.ts';
import { tfRecordFile } from '../training/data/testing/files.ts';
import { ROOT, startCommand } from './command.ts';
import { jsonLines, noneLeft, temporaryFolder, USER, until, useCluster } from './harness.ts';

/** Data that the ApplicationMaster distributes: feed records from other processes, and splits of files. */

/** Reads records from the feed, or from the files that FILES or CLAIM names, and writes them to `$OUT/<name>-<index>-<generation>`. */
const PROGRAM = `
import { appendFileSync, existsSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { data } from 'tony-ts/training';

const { OUT, TONY_INDEX, TONY_RANK, TONY_WORLD_SIZE, TONY_GENERATION, FILES, CLAIM, PRODUCERS = '1', PAUSE_MS = '0', SHARED = 'no', HELD = 'no' } = process.env;
const note = (name, record) => appendFileSync(OUT + '/' + name + '-' + TONY_INDEX + '-' + TONY_GENERATION, record + '\\n');
const there = async (name) => {
  while (!existsSync(OUT + '/' + name)) await delay(10);
};
if (CLAIM) {
  // The other tasks wait until task 0 has died. Otherwise, no splits would remain for the restart of task 0.
  if (TONY_INDEX !== '0') await there('died');
  const dataset = data.lines(CLAIM);
  for await (const split of dataset.claimSplits()) {
    const records = [];
    for await (const line of dataset.read({ split })) records.push(line);
    // Task 0 kills itself while it holds a split. The file ensures that this happens only once.
    if (TONY_INDEX === '0' && !existsSync(OUT + '/died')) {
      appendFileSync(OUT + '/died', '');
      process.kill(process.pid, 'SIGKILL');
    }
    await delay(Number(PAUSE_MS));
    for (const record of records) note('claimed', record);
  }
} else if (FILES) {
  const share = { index: Number(TONY_RANK), count: Number(TONY_WORLD_SIZE) };
  // The fast rank waits until the slow rank has read a record, so that both ranks read some records.
  if (TONY_RANK !== '0') await there('lines-0-' + TONY_GENERATION);
  for await (const line of data.lines(FILES).dispatch().read({ share })) {
    note('lines', line);
    if (HELD === 'yes') await there('replaced');
    if (TONY_RANK === '0') await delay(Number(PAUSE_MS));
  }
} else {
  for await (const record of data.fromFeed('numbers', { producers: Number(PRODUCERS) })) {
    note('feed', record);
    if (SHARED === 'yes') for (const index of ['0', '1']) await there('feed-' + index + '-' + TONY_GENERATION);
  }
}
note('over', '');
`;

async function jobFolder(
  options: { env?: Record<string, string>; roles?: string } = {},
): Promise<{ folder: string; out: string; file: string }> {
  const folder = await temporaryFolder();
  const out = path.join(folder, 'out');
  await mkdir(out);
  // The cluster may run containers as another user.
  chmodSync(out, 0o777);
  await mkdir(path.join(folder, 'source'));
  await writeFile(path.join(folder, 'source', 'read.mjs'), PROGRAM);
  const file = path.join(folder, 'job.yaml');
  await writeFile(
    file,
    `name: fed
framework: none
source: source
command: exec node read.mjs
env: ${JSON.stringify({ OUT: out, ...options.env })}
${options.roles ?? 'roles: {worker: {instances: 2, kind: gang, resources: {memory: 1g}}}'}
master: {resources: {memory: 512m}}
`,
  );
  return { folder, out, file };
}

function recordsIn(out: string, name: string): string[] {
  return readdirSync(out)
    .filter((file) => file.startsWith(`${name}-`))
    .flatMap((file) => readFileSync(path.join(out, file), 'utf8').trimEnd().split('\n'));
}

const numbers = (from: number, to: number): string[] => Array.from({ length: to - from }, (_, at) => String(from + at));
const sorted = (records: readonly string[]): string[] => [...records].sort((a, b) => Number(a) - Number(b));

function feed(
  words: readonly string[],
  input: string | Buffer,
  env: Record<string, string | undefined>,
): Promise<{ code: number | null; stderr: string }> {
  const child = spawn(process.execPath, [path.join(ROOT, 'dist', 'tony-ts.js'), 'feed', ...words], {
    env: { ...process.env, ...env },
    stdio: ['pipe', 'ignore', 'pipe'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  child.stdin.on('error', () => {});
  child.stdin.end(input);
  return new Promise((resolve) => child.once('close', (code) => resolve({ code, stderr })));
}

async function submitLocally(options: Parameters<typeof jobFolder>[0] = {}) {
  const { folder, out, file } = await jobFolder(options);
  const root = path.join(folder, 'root');
  const env = { TONY_LOCAL_DIR: root, HADOOP_CONF_DIR: undefined };
  const command = startCommand(['submit', '--local', '--conf', file, '--output', 'json'], { env });
  const [id] = await command.output(/local_\d+_\d+/);
  return { id, out, root, env, command, paths: localPaths(root, id) };
}

describe('a feed on this machine', () => {
  test('delivers each record of a library producer and a command producer exactly once, and ends when both have ended', async () => {
    const { id, out, root, env, command, paths } = await submitLocally({ env: { PRODUCERS: '2', SHARED: 'yes' } });
    const states = new Set<string>();
    const writer = await openFeed(id, 'numbers', { localRoot: root, onProgress: ({ state }) => states.add(state) });
    const typed = feed([id, 'numbers', '--format', 'tfrecord'], tfRecordFile(numbers(20_000, 21_000)), env);
    for (const record of numbers(0, 20_000)) {
      await writer.write(record);
    }
    await writer.end();
    expect(await typed).toMatchObject({ code: 0 });
    expect(await command.result).toMatchObject({ exitCode: 0 });
    expect(sorted(recordsIn(out, 'feed'))).toEqual(numbers(0, 21_000));
    expect(readdirSync(out).filter((name) => name.startsWith('feed-'))).toHaveLength(2);
    expect(states).toContain('over');
    await expect(openFeed(id, 'numbers', { localRoot: root })).rejects.toMatchObject({ code: 'FEED_ENDED' });
    await until(() => !readdirSync(paths.job).includes('feed.json'), { describe: () => readdirSync(paths.job) });
  });

  test('delivers unconfirmed records to the next ApplicationMaster, and rejects a wrong token', async () => {
    const { id, out, root, command, paths } = await submitLocally();
    const writer = await openFeed(id, 'numbers', { localRoot: root });
    for (const record of numbers(0, 1000)) {
      await writer.write(record);
    }
    await until(() => recordsIn(out, 'feed').length === 1000, { describe: () => recordsIn(out, 'feed').length });
    const place = path.join(paths.job, 'feed.json');
    expect(statSync(place).mode & 0o777).toBe(0o600);
    const address = JSON.parse(readFileSync(place, 'utf8')) as { token: string; attempt: number };
    writeFileSync(place, JSON.stringify({ ...address, token: '0'.repeat(address.token.length) }));
    const stranger = await openFeed(id, 'numbers', { localRoot: root });
    await expect(stranger.end()).rejects.toMatchObject({ code: 'FEED_DENIED' });
    writeFileSync(place, JSON.stringify(address));

    const { pid } = JSON.parse(readFileSync(paths.masterAddress, 'utf8')) as { pid: number };
    process.kill(pid, 'SIGKILL');
    for (const record of numbers(1000, 5000)) {
      await writer.write(record);
    }
    await writer.end();
    expect(await command.result).toMatchObject({ exitCode: 0 });
    expect(sorted(recordsIn(out, 'feed'))).toEqual(numbers(0, 5000));
  });

  test('tells a waiting producer that its job has ended', async () => {
    const { id, root, command } = await submitLocally();
    const states: string[] = [];
    const writer = await openFeed(id, 'nobody-reads-this', {
      localRoot: root,
      onProgress: ({ state, reason }) => states.push(`${state} ${reason}`),
    });
    const large = Buffer.alloc(1024 * 1024);
    const writing = (async () => {
      for (;;) {
        await writer.write(large);
      }
    })();
    writing.catch(() => {});
    await until(() => states.some((state) => state.startsWith('full') && state.includes('no worker is reading')), {
      describe: () => states.slice(-5),
    });
    command.signal('SIGTERM');
    await expect(writing).rejects.toMatchObject({ code: 'FEED_ENDED' });
    await command.result;
  });

  test('dispatches fewer splits to a slow worker, and each record once even if the ApplicationMaster restarts', async () => {
    const { out, command, paths } = await submitLocally({ env: { FILES: await partsOnDisk(), PAUSE_MS: '30', HELD: 'yes' } });
    // Both workers pause in the middle of a split, and most splits are still unassigned.
    await until(() => recordsIn(out, 'lines').length === 2, { describe: () => recordsIn(out, 'lines').length });
    const { pid } = JSON.parse(readFileSync(paths.masterAddress, 'utf8')) as { pid: number };
    process.kill(pid, 'SIGKILL');
    await writeFile(path.join(out, 'replaced'), '');
    expect(await command.result).toMatchObject({ exitCode: 0 });
    expect(sorted(recordsIn(out, 'lines'))).toEqual(numbers(0, 600));
    const own = (index: number) =>
      readFileSync(path.join(out, `lines-${index}-1`), 'utf8')
        .trimEnd()
        .split('\n').length;
    expect(own(0)).toBeLessThan(own(1));
  });
});

test('two ranks train the same number of steps on a feed, wait for a slow producer, and recover from the death of one rank', async () => {
  const { folder, out } = await jobFolder();
  const file = path.join(folder, 'fit.yaml');
  await writeFile(
    file,
    `name: fit-feed
framework: none
runtime: system
env: {OUT: ${out}, TONY_BACKEND: cpu}
command: exec node ${path.join(ROOT, 'integration-tests', 'programs', 'fit-feed.mjs')}
checkpoint: {everySteps: 3}
roles: {worker: {instances: 2, kind: gang, restart: {policy: on-failure, maxRestarts: 2}}}
`,
  );
  const root = path.join(folder, 'root');
  const command = startCommand(['submit', '--local', '--conf', file], { env: { TONY_LOCAL_DIR: root, HADOOP_CONF_DIR: undefined } });
  const [id] = await command.output(/local_\d+_\d+/);
  const fed = (name: string): string[] => readFileSync(path.join(out, name), 'utf8').trimEnd().split('\n');
  const writer = await openFeed(id, 'numbers', { localRoot: root });
  for (const record of numbers(0, 200)) {
    await writer.write(record);
  }
  await until(() => recordsIn(out, 'fed').length === 200, { describe: () => readdirSync(out) });
  // Longer than the interval at which ranks without data report to each other.
  await delay(11_000);
  for (const record of numbers(200, 300)) {
    await writer.write(record);
  }
  await until(() => recordsIn(out, 'fed').length === 300, { describe: () => readdirSync(out) });
  process.kill(Number(readFileSync(path.join(out, 'pid-1'), 'utf8')), 'SIGKILL');
  await until(() => readdirSync(out).includes('begun-0-2'), { describe: () => readdirSync(out) });
  for (const record of numbers(300, 500)) {
    await writer.write(record);
  }
  await writer.end();
  expect(await command.result).toMatchObject({ exitCode: 0 });
  expect(sorted(recordsIn(out, 'fed').filter((record) => Number(record) >= 300))).toEqual(numbers(300, 500));
  const steps = [0, 1].map((rank) => fed(`steps-${rank}-2`).join(''));
  expect(steps[0]).toBe(steps[1]);
  expect(steps[0]).toMatch(/^\d+$/);
});

/** Trains on dispatched files. programs/fit-dispatch.mjs records which data each rank uses in each step. */
/** `hold`: the first generation waits at step 30. */
async function dispatchedJob(options: { readonly data: string; readonly yaml: string; readonly hold?: boolean }): Promise<{
  readonly out: string;
  readonly file: string;
  readonly root: string;
  used(rank: number, generation: number): number[][];
  /** Waits until both ranks of a first generation with `hold` have recorded all of their steps. */
  held(): Promise<void>;
  kill(rank: number): void;
}> {
  const { folder, out } = await jobFolder();
  const file = path.join(folder, 'fit.yaml');
  await writeFile(
    file,
    `name: fit-dispatch
source: ${path.join(ROOT, 'integration-tests', 'programs')}
env: {OUT: ${out}, FILES: '${options.data}', TONY_BACKEND: cpu, HOLD: '${options.hold === true ? 'yes' : 'no'}'}
command: exec node fit-dispatch.mjs
checkpoint: {everySteps: 7}
master: {resources: {memory: 512m}}
heartbeat: {interval: 300ms, missed: 10}
${options.yaml}
`,
  );
  const used = (rank: number, generation: number) => {
    const name = path.join(out, `used-${rank}-${generation}`);
    if (!existsSync(name)) {
      return [];
    }
    const steps = readFileSync(name, 'utf8').split('\n').slice(0, -1);
    return steps.map((line) => line.split(' ').filter(Boolean).map(Number));
  };
  const held = async () => {
    await until(() => [0, 1].every((rank) => used(rank, 1).length > 30), { describe: () => readdirSync(out) });
  };
  const kill = (rank: number) => void process.kill(Number(readFileSync(path.join(out, `pid-${rank}`), 'utf8')), 'SIGKILL');
  return { out, file, root: path.join(folder, 'root'), used, held, kill };
}

const PARTS = numbers(0, 12).map((part) => {
  return { name: `part-${part.padStart(2, '0')}`, text: numbers(Number(part) * 50, Number(part) * 50 + 50).join('\n') };
});

async function partsOnDisk(): Promise<string> {
  const data = await temporaryFolder();
  for (const { name, text } of PARTS) {
    await writeFile(path.join(data, name), text);
  }
  return data;
}

/** Returns the records that all ranks used before and after the checkpoint from which generation 2 resumed. */
function usedInTwoGenerations({ out, used }: Pick<Awaited<ReturnType<typeof dispatchedJob>>, 'out' | 'used'>): string[] {
  const from = Number(readFileSync(path.join(out, 'steps'), 'utf8')) - used(0, 2).length;
  expect(from).toBeGreaterThan(1);
  return [0, 1].flatMap((rank) => [...used(rank, 1).slice(0, from), ...used(rank, 2)].flat().map(String));
}

const TWO_WORKERS = 'roles: {worker: {instances: 2, kind: gang, restart: {policy: on-failure, maxRestarts: 2}}}';

/** Kills a worker of a parameter-server job in the middle of its training. */
async function killSecondWorker(job: Awaited<ReturnType<typeof dispatchedJob>>): Promise<void> {
  await until(() => job.used(1, 1).length > 25, { describe: () => readdirSync(job.out), everyMs: 20 });
  job.kill(1);
}

/** Expects that both workers used all records, and that the restarted worker 1 repeated only a few of its own. */
function expectEachRecord(job: Awaited<ReturnType<typeof dispatchedJob>>): void {
  const [others, own] = [job.used(0, 1).flat().map(String), job.used(1, 1).flat().map(String)] as const;
  expect(sorted([...others, ...new Set(own)])).toEqual(numbers(0, 600));
  expect(others.length).toBeGreaterThan(0);
  // The recorded position is up to a fraction of a second old, so the restarted worker repeats a few records.
  expect(own.length - new Set(own).size).toBeLessThan(own.length / 2);
}

test('asynchronous workers of parameter servers divide dispatched files, and a restarted worker continues with its own part', async () => {
  const job = await dispatchedJob({ data: await partsOnDisk(), yaml: `strategy: parameter-server\n${TWO_WORKERS}` });
  const env = { TONY_LOCAL_DIR: job.root, HADOOP_CONF_DIR: undefined };
  const command = startCommand(['submit', '--local', '--conf', job.file, '--output', 'json'], { env });
  await killSecondWorker(job);
  const { exitCode, stdout } = await command.result;
  expect({ exitCode, last: jsonLines(stdout).at(-1) }).toMatchObject({ exitCode: 0, last: { generations: 1 } });
  expectEachRecord(job);
});

test('when a task dies, another task receives its split, and each record appears once in the output', async () => {
  const data = await temporaryFolder();
  for (const file of numbers(0, 10)) {
    await writeFile(path.join(data, `part-${file}`), `${file}\n`);
  }
  const roles = 'roles: {worker: {instances: 3, kind: independent, restart: {policy: on-failure, maxRestarts: 2}}}';
  const { out, command } = await submitLocally({ env: { CLAIM: data, PAUSE_MS: '50' }, roles });
  expect(await command.result).toMatchObject({ exitCode: 0 });
  expect(readdirSync(out)).toContain('died');
  expect(sorted(recordsIn(out, 'claimed'))).toEqual(numbers(0, 10));
});

describe('a feed on a cluster', () => {
  const cluster = useCluster();

  test('JavaScript and Python programs receive each record of a producer once, and read and write files in HDFS', async () => {
    const storage = `/user/${USER}/python-feed`;
    const roles = [
      'roles:',
      '  worker: {instances: 2, kind: gang, command: python3 feed-and-files.py, resources: {memory: 1g}}',
      '  reader: {instances: 2, kind: independent, resources: {memory: 1g}}',
    ];
    const { folder, out, file } = await jobFolder({ env: { FOLDER: `hdfs://${storage}` }, roles: roles.join('\n') });
    const python = 'feed-and-files.py';
    await copyFile(path.join(ROOT, 'integration-tests', 'programs', python), path.join(folder, 'source', python));
    const command = cluster.startCommand(['submit', '--conf', file, '--output', 'json']);
    const [id] = await command.output(/application_\d+_\d+/);
    const send = (name: string, count: number) => feed([id, name], `${numbers(0, count).join('\n')}\n`, cluster.clientEnvironment());
    const [{ code, stderr }, toPython] = await Promise.all([send('numbers', 5000), send('python', 5050)]);
    expect({ code, stderr }).toMatchObject({ code: 0, stderr: expect.stringContaining('5000 records written, 5000 received') });
    expect(toPython).toMatchObject({ code: 0 });
    const { exitCode, stdout } = await command.result;
    expect({ exitCode, last: jsonLines(stdout).at(-1) }).toMatchObject({ exitCode: 0 });
    expect(sorted(recordsIn(out, 'feed'))).toEqual(numbers(0, 5000));
    expect(await feed([id, 'numbers'], '', cluster.clientEnvironment('bob'))).toMatchObject({ code: 1 });
    const parts = await Promise.all([0, 1].map(async (index) => (await cluster.hdfsRead(`${storage}/part-${index}`)).toString()));
    expect(sorted(parts.join('').trimEnd().split('\n'))).toEqual(numbers(0, 5050));
    const claimed = await Promise.all([0, 1].map(async (index) => (await cluster.hdfsRead(`${storage}/claimed-${index}`)).toString()));
    expect(sorted(claimed.join('').trimEnd().split('\n'))).toEqual(numbers(0, 20));
    expect((await cluster.hdfsTree(storage)).map(({ path: name }) => path.basename(name)).sort()).toEqual([
      ...['blob-0', 'blob-1', 'claimed-0', 'claimed-1', 'part-0', 'part-1'],
    ]);
    const logs = await until(async () => (await cluster.run(['logs', id, 'worker:0'])).stdout, { describe: 'logs after the end' });
    expect(logs).toContain('ALREADY_EXISTS\nNOT_FOUND\n');
    // docs/environment.schema.json describes these variables.
    const variables = JSON.parse(logs.split('\n')[0] ?? '') as unknown;
    expect(TONY_VARIABLES.strict().required().parse(variables)).toMatchObject({ TONY_RANK: '0', TONY_JOB_ID: id });
    await noneLeft(cluster, id);
  });

  async function dispatched(strategy: string, hold = false) {
    const data = `hdfs:///user/${USER}/dispatched`;
    const storage = createStorage({ hadoop: await HadoopConfiguration.fromEnvironment(cluster.environment()), user: USER });
    onTestFinished(() => storage.close());
    for (const { name, text } of PARTS) {
      await storage.write(`${data}/${name}`, Buffer.from(text));
    }
    const job = await dispatchedJob({
      data,
      hold,
      yaml: `strategy: ${strategy}\n${TWO_WORKERS.replace('}}', '}, resources: {memory: 1g}}')}`,
    });
    const command = cluster.startCommand(['submit', '--conf', job.file, '--output', 'json']);
    const [id] = await command.output(/application_\d+_\d+/);
    return { ...job, id, command };
  }

  test('dispatches files in HDFS to ranks in containers, even after one rank dies', async () => {
    const { id, command, ...job } = await dispatched('all-reduce', true);
    // Waits for the checkpoint that the second generation resumes from, however slow HDFS is.
    await command.output(/"type":"checkpoint"/);
    await job.held();
    job.kill(1);
    const { exitCode, stdout } = await command.result;
    expect({ exitCode, last: jsonLines(stdout).at(-1) }, stdout).toMatchObject({ exitCode: 0, last: { generations: 2 } });
    expect(sorted(usedInTwoGenerations(job))).toEqual(numbers(0, 600));
    await noneLeft(cluster, id);
  });
});
