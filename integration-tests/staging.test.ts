import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { CacheEntry } from '../client/cache/prune-cache.ts';
import { readStat } from '../platform/process-stat.ts';
import type { DaemonName } from './cluster/layout.mjs';
import { jsonLines, noneLeft, temporaryFolder, until, useCluster } from './harness.ts';

const cluster = useCluster();
const STAGING = '/user/alice/.tony-ts';

async function jobFolder(): Promise<string> {
  const folder = await temporaryFolder();
  for (const name of ['source', 'data/sub']) {
    await mkdir(path.join(folder, name), { recursive: true });
  }
  // This text is unique to the run, so the cache does not contain these files yet.
  await writeFile(path.join(folder, 'source', 'wait.sh'), `# ${folder}\nsleep 60\n`);
  await writeFile(path.join(folder, 'source', 'notes.log'), 'x'.repeat(1000));
  await writeFile(path.join(folder, 'source', '.tonyignore'), '*.log\n');
  await writeFile(path.join(folder, 'data', 'sub', 'a%.bin'), `a ${folder}`);
  await writeFile(path.join(folder, 'data', 'b b.bin'), 'bb');
  const job = [
    'name: staged',
    'framework: none',
    'runtime: system',
    'source: source',
    'command: bash wait.sh',
    'data: {numbers: data}',
    'roles: {worker: {kind: gang}}',
  ];
  await writeFile(path.join(folder, 'job.yaml'), `${job.join('\n')}\n`);
  return folder;
}

interface Line {
  readonly type: string;
  readonly name?: string;
  readonly uploaded?: boolean;
  readonly id?: string;
}

async function submit(
  folder: string,
  env: Record<string, string> = {},
): Promise<{ staged: Record<string, boolean | undefined>; id: string }> {
  const words = ['submit', '--conf', path.join(folder, 'job.yaml'), '--detach', '--output', 'json'];
  const { exitCode, stdout, stderr } = await cluster.run(words, { env });
  expect(stderr).toBe('');
  expect(exitCode).toBe(0);
  const lines = jsonLines(stdout) as unknown as Line[];
  const staged = Object.fromEntries(lines.filter(({ type }) => type === 'staged').map(({ name, uploaded }) => [name, uploaded]));
  const last = lines.at(-1);
  expect(last).toMatchObject({ type: 'submitted' });
  const id = last?.id ?? '';
  // The next test must not find this job running, even if this test fails.
  onTestFinished(async () => void (await cluster.run(['kill', id], { env })));
  return { staged, id };
}

async function ownFiles(id: string): Promise<string[]> {
  return (await cluster.hdfsTree(`${STAGING}/jobs`)).map((entry) => entry.path).filter((name) => name.includes(id));
}

async function end(id: string, env: Record<string, string> = {}): Promise<void> {
  const { exitCode, stdout } = await cluster.run(['kill', id], { env });
  expect(stdout).toContain(`killed ${id}`);
  expect(exitCode).toBe(0);
  expect(await cluster.application(id)).toMatchObject({ finalStatus: 'KILLED' });
}

test('submit makes uploaded files private, and on a repeated submit uploads only changed files', async () => {
  const folder = await jobFolder();
  const first = await submit(folder);
  expect(first.staged).toMatchObject({ source: true, numbers: true });
  // Programs create files such as checkpoints and summaries themselves. The permissions of the root folder exclude other users.
  const programs = new RegExp(`^${STAGING}/(output|history/[^/]+/summaries)(/|$)`);
  // The folder also contains handmade jobs of other tests.
  const foreign = (place: string): boolean => /application_/.test(place) && !place.includes(first.id);
  const tree = (await cluster.hdfsTree(STAGING)).filter((entry) => !programs.test(entry.path) && !foreign(entry.path));
  expect(tree.filter(({ owner, type, permission }) => owner !== 'alice' || permission !== (type === 'FILE' ? '600' : '700'))).toEqual([]);
  expect(tree.map((entry) => entry.path)).toEqual(
    expect.arrayContaining([
      expect.stringMatching(/\/cache\/[0-9a-f]{64}\/source-\d+\.tar\.gz$/),
      expect.stringMatching(/\/cache\/[0-9a-f]{64}\/numbers\/sub\/a%\.bin$/),
      expect.stringMatching(/\/cache\/[0-9a-f]{64}\/numbers\/b b\.bin$/),
    ]),
  );
  await end(first.id);

  const second = await submit(folder);
  expect(second.staged).toEqual({ source: false, tony: false, numbers: false });
  await end(second.id);

  await writeFile(path.join(folder, 'source', 'wait.sh'), `# ${folder}\nsleep 61\n`);
  await writeFile(path.join(folder, 'source', 'notes.log'), 'y');
  const third = await submit(folder);
  expect(third.staged).toEqual({ source: true, tony: false, numbers: false });
  await end(third.id);
  for (const { id } of [first, second, third]) {
    expect(await ownFiles(id)).toEqual([]);
  }
});

test('a killed job leaves no files of its own, even if its ApplicationMaster detects the kill late', async () => {
  const { id } = await submit(await jobFolder());
  const running = async (word: string): Promise<number | undefined> =>
    (await cluster.containers(id)).find(({ command }) => command.includes(word))?.pid;
  const program = await until(() => running('bash wait.sh'), { describe: () => cluster.containers(id) });
  const master = await until(() => running('application-master.mjs'), { describe: () => cluster.containers(id) });
  const stopped: number[] = [];
  const stop = (pid: number): void => {
    process.kill(pid, 'SIGSTOP');
    stopped.push(pid);
  };
  const stopDaemon = async (name: DaemonName): Promise<void> => stop((await cluster.pidOf(name)) as number);
  try {
    // Delays the next heartbeats, in whose responses the ResourceManager orders the nodes to kill the containers.
    await stopDaemon('nodemanager1');
    await stopDaemon('nodemanager2');
    // Otherwise, the ApplicationMaster would end the job itself when `tony-ts kill` asks it.
    stop(master);
    await end(id);
    expect(await ownFiles(id)).toEqual([]);
    await stopDaemon('resourcemanager');
    process.kill(master, 'SIGCONT');
    // Changes the job's state, so the ApplicationMaster saves it.
    process.kill(program, 'SIGKILL');
    await until(async () => (await running('application-master.mjs')) === undefined, { describe: () => ownFiles(id) });
    expect(await ownFiles(id)).toEqual([]);
  } finally {
    for (const pid of stopped.filter((each) => readStat(each) !== null)) {
      process.kill(pid, 'SIGCONT');
    }
  }
  await noneLeft(cluster, id);
});

test('submit reports unchanged uploads, and replaces a damaged file', async () => {
  const folder = await jobFolder();
  const isArchive = (name: string): boolean => /\/source-\d+\.tar\.gz$/.test(name);
  const before = new Set((await cluster.hdfsTree(`${STAGING}/cache`)).map((entry) => entry.path));
  const first = await submit(folder);
  await end(first.id);
  const archive = (await cluster.hdfsTree(`${STAGING}/cache`)).filter(({ path: name }) => isArchive(name) && !before.has(name));
  const words = ['submit', '--conf', path.join(folder, 'job.yaml'), '--detach'];
  const again = await cluster.run(words);
  expect(again.stdout).toMatch(/^source unchanged \(\d+(\.\d+)? k?B already on HDFS\)$/m);
  await end(/application_\d+_\d+/.exec(again.stdout)?.[0] ?? '');
  for (const { path: name } of archive) {
    await cluster.hdfsWrite(name, Buffer.from('damaged'));
  }
  const { staged, id } = await submit(folder);
  expect(staged.source).toBe(true);
  await end(id);
});

test('prune removes cache entries that no job uses, and keeps the entries that the next containers of a running job need', async () => {
  const folder = await jobFolder();
  // This cache is separate, so jobs of other tests neither add nor remove files.
  const root = `/user/alice/prune-${path.basename(folder)}`;
  onTestFinished(() => cluster.hdfsRemove(root));
  const env = { TONY_STAGING: root };
  const source = (version: number): Promise<void> =>
    writeFile(path.join(folder, 'source', 'wait.sh'), `# ${version}\nwhile [ ! -e ${folder}/go ]; do sleep 0.2; done\n`);
  const listed = async () =>
    jsonLines((await cluster.run(['cache', 'list', '--output', 'json'], { env })).stdout) as unknown as CacheEntry[];
  const prune = async (...words: string[]): Promise<string> => {
    const { exitCode, stdout, stderr } = await cluster.run(['cache', 'prune', ...words], { env });
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    return stdout;
  };
  const files = async (): Promise<string[]> =>
    (await cluster.hdfsTree(`${root}/cache`)).filter(({ type }) => type === 'FILE').map(({ path: name }) => name);
  const started = async (id: string, times: number): Promise<void> => {
    const events = async () => (await cluster.hdfsRead(`${root}/history/${id}/events-1.jsonl`).catch(() => '')).toString();
    const starts = async () => (await events()).split('"program-started"').length - 1;
    await until(async () => (await starts()) === times, { describe: events });
  };

  await source(1);
  const first = await submit(folder, env);
  // A job killed before it starts leaves no history.
  await started(first.id, 1);
  await end(first.id, env);
  await noneLeft(cluster, first.id);
  const before = await files();
  await source(2);
  const second = await submit(folder, env);
  expect(second.staged).toEqual({ source: true, tony: false, numbers: false });
  await started(second.id, 1);

  const sources = (await listed()).filter(({ contents }) => contents[0]?.kind === 'source');
  expect(sources).toMatchObject([
    { usedBy: [second.id], lastUse: { id: second.id, name: 'staged' } },
    { usedBy: [], lastUse: { id: first.id } },
  ]);
  expect((await cluster.run(['cache'], { env })).stdout).toMatch(new RegExp(`^source +\\d.* ${second.id} +now$`, 'm'));
  expect(await prune()).toBe('0 entries, 0 B removed\n');
  const dry = await prune('--older-than', '0s', '--dry-run');
  expect(dry).toMatch(new RegExp(`^would remove source [0-9a-f]{8} \\(.*last used by ${first.id} .*\n1 entry, .* would be removed\n$`));
  const all = await files();
  expect(await prune('--older-than', '0s')).toMatch(/^removed source .*\n1 entry, .* removed\n$/);
  const kept = await files();
  const removed = all.filter((name) => !kept.includes(name));
  expect(removed).toEqual([expect.stringMatching(/\/source-\d+\.tar\.gz$/)]);
  expect(before).toContain(removed[0]);

  // The job's next containers localise the job's files, whose timestamps must be the ones that the job recorded.
  const executor = (await cluster.containers(second.id)).find(({ command }) => /^\S*node .*task-executor\.mjs/.test(command));
  process.kill(executor?.pid as number, 'SIGKILL');
  await started(second.id, 2);
  await writeFile(path.join(folder, 'go'), '');
  expect(await cluster.ended(second.id)).toMatchObject({ finalStatus: 'SUCCEEDED' });
  await noneLeft(cluster, second.id);

  expect(await prune('--older-than', '1h')).toBe('0 entries, 0 B removed\n');
  expect(await prune('--older-than', '0s')).toMatch(/^3 entries, .* removed$/m);
  expect(await listed()).toEqual([]);
  const again = await submit(folder, env);
  expect(again.staged).toEqual({ source: true, tony: true, numbers: true });
  expect(await cluster.ended(again.id)).toMatchObject({ finalStatus: 'SUCCEEDED' });
});
