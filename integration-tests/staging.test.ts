import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { DaemonName } from './cluster/layout.mjs';
import { jsonLines, noneLeft, temporaryFolder, until, useCluster } from './harness.ts';

/** What a submit puts on HDFS, and what it does not put there twice. */

const cluster = useCluster();
const STAGING = '/user/alice/.tony-ts';

async function jobFolder(): Promise<string> {
  const folder = await temporaryFolder();
  for (const name of ['source', 'data/sub']) await mkdir(path.join(folder, name), { recursive: true });
  // Of this run alone: what other tests have staged must not count.
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
    'roles: {worker: {ranked: true}}',
  ];
  await writeFile(path.join(folder, 'job.yaml'), `${job.join('\n')}\n`);
  return folder;
}

interface Line {
  readonly type: string;
  readonly name?: string;
  readonly uploaded?: boolean;
  readonly applicationId?: string;
}

async function submit(folder: string): Promise<{ staged: Record<string, boolean | undefined>; id: string }> {
  const { exitCode, stdout, stderr } = await cluster.run([
    'submit',
    '--conf',
    path.join(folder, 'job.yaml'),
    '--detach',
    '--output',
    'json',
  ]);
  expect(stderr).toBe('');
  expect(exitCode).toBe(0);
  const lines = jsonLines(stdout) as unknown as Line[];
  const staged = Object.fromEntries(lines.filter(({ type }) => type === 'staged').map(({ name, uploaded }) => [name, uploaded]));
  const last = lines.at(-1);
  expect(last).toMatchObject({ type: 'submitted' });
  const id = last?.applicationId ?? '';
  // Should the test fail, the next one must not find it running.
  onTestFinished(async () => void (await cluster.run(['kill', id])));
  return { staged, id };
}

/** What a job has on HDFS for itself alone. */
async function ownFiles(id: string): Promise<string[]> {
  return (await cluster.hdfsTree(`${STAGING}/jobs`)).map((entry) => entry.path).filter((name) => name.includes(id));
}

async function end(id: string): Promise<void> {
  const { exitCode, stdout } = await cluster.run(['kill', id]);
  expect(stdout).toContain(`killed ${id}`);
  expect(exitCode).toBe(0);
  expect(await cluster.application(id)).toMatchObject({ state: 'KILLED' });
}

test('things are uploaded once, are private, and only what changed goes again', async () => {
  const folder = await jobFolder();
  const first = await submit(folder);
  expect(first.staged).toMatchObject({ source: true, numbers: true });
  // What programs write, checkpoints and summaries, is theirs; the root keeps others out of it.
  const programs = new RegExp(`^${STAGING}/(output|history/[^/]+/summaries)(/|$)`);
  // Jobs of others that were made by hand lie there as well.
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
  // What is ignored does not count as a change.
  await writeFile(path.join(folder, 'source', 'notes.log'), 'y');
  const third = await submit(folder);
  expect(third.staged).toEqual({ source: true, tony: false, numbers: false });
  await end(third.id);
  // A job that was killed leaves none of its own files.
  for (const { id } of [first, second, third]) expect(await ownFiles(id)).toEqual([]);
});

test('a job that was killed leaves none of its own files, however late its ApplicationMaster hears of that', async () => {
  const { id } = await submit(await jobFolder());
  const running = async (word: string): Promise<number | undefined> =>
    (await cluster.containers(id)).find(({ command }) => command.includes(word))?.pid;
  const program = await until(() => running('bash wait.sh'), { describe: () => cluster.containers(id), timeoutMs: 60_000 });
  const stopped: number[] = [];
  const stop = async (...names: readonly DaemonName[]): Promise<void> => {
    for (const name of names) {
      const pid = (await cluster.pidOf(name)) as number;
      process.kill(pid, 'SIGSTOP');
      stopped.push(pid);
    }
  };
  try {
    // As if their next heartbeats, which tell them to end the containers, were far away.
    await stop('nodemanager1', 'nodemanager2');
    await end(id);
    expect(await ownFiles(id)).toEqual([]);
    await stop('resourcemanager');
    // A change of the job's state, which is to be written down.
    process.kill(program, 'SIGKILL');
    await until(async () => (await running('application-master.mjs')) === undefined, { describe: () => ownFiles(id) });
    expect(await ownFiles(id)).toEqual([]);
  } finally {
    for (const pid of stopped) process.kill(pid, 'SIGCONT');
  }
  await noneLeft(cluster, id);
});

test('a person reads what was unchanged; a damaged file is replaced', async () => {
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
  for (const { path: name } of archive) await cluster.hdfsWrite(name, Buffer.from('damaged'));
  const { staged, id } = await submit(folder);
  expect(staged.source).toBe(true);
  await end(id);
});
