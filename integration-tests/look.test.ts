import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { COMMAND, type Command, type CommandOptions, type CommandResult, runCommand, startCommand } from './command.ts';
import { jsonLines, noneLeft, temporaryFolder, until, useCluster } from './harness.ts';
import { openTerminal, type PseudoTerminal, terminalCommand } from './pseudo-terminal.ts';

const cluster = useCluster();
const ID = /(?:application|local)_\d+_\d+/;
const ENTERED = '\x1b[?1049h';
const LEFT = '\x1b[?1049l';

interface Place {
  readonly run: (words: readonly string[], options?: CommandOptions) => Promise<CommandResult>;
  readonly start: (words: readonly string[]) => Command;
  readonly terminal: (words: readonly string[], columns: number) => PseudoTerminal;
  readonly submit: readonly string[];
  readonly onYarn: boolean;
}

async function onYarn(): Promise<Place> {
  const env = cluster.clientEnvironment();
  return {
    run: (words, options) => cluster.run(words, options),
    start: (words) => cluster.startCommand(words),
    terminal: (words, columns) => terminalCommand(words, { columns, env }),
    submit: ['submit', '--detach'],
    onYarn: true,
  };
}

async function onThisMachine(): Promise<Place> {
  const env = { HOME: await temporaryFolder(), HADOOP_CONF_DIR: undefined };
  return {
    run: (words, options) => runCommand(words, { ...options, env: { ...env, ...options?.env } }),
    start: (words) => startCommand(words, { env }),
    terminal: (words, columns) => terminalCommand(words, { columns, env }),
    submit: ['submit', '--detach', '--local'],
    onYarn: false,
  };
}

/** Submits a job of two workers and a watcher, which run until `open` creates the gate file. With `fail`, the second worker fails. */
async function submitted(
  { run, submit }: Place,
  name = 'looked at',
): Promise<{ id: string; open: () => Promise<void>; fail: () => Promise<void> }> {
  const folder = await temporaryFolder();
  await mkdir(path.join(folder, 'source'));
  const [gate, failing] = [path.join(folder, 'go'), path.join(folder, 'fail')];
  const script = [
    `while [ ! -e ${gate} ]; do`,
    `  if [ -e ${failing} ] && [ "$TONY_INDEX" = 1 ]; then echo "TypeError: loss is not a function" >&2; exit 3; fi`,
    '  sleep 0.1',
    'done',
  ];
  await writeFile(path.join(folder, 'source', 'run.sh'), `${script.join('\n')}\n`);
  const lines = [
    `name: ${name}`,
    'framework: none',
    'runtime: system',
    'source: source',
    'command: bash run.sh',
    'env: {API_TOKEN: a-secret-of-many-letters}',
    'roles:',
    '  worker: {instances: 2, restart: {policy: never}, resources: {memory: 512m}}',
    '  watcher: {command: sleep 600, kind: sidecar, resources: {memory: 256m}}',
    'master: {resources: {memory: 512m}}',
  ];
  await writeFile(path.join(folder, 'job.yaml'), `${lines.join('\n')}\n`);
  const { stdout, stderr } = await run([...submit, '--conf', path.join(folder, 'job.yaml')]);
  const id = ID.exec(stdout)?.[0];
  if (id === undefined) {
    throw new Error(`no id in ${stdout}${stderr}`);
  }
  // The next test needs the resources even if this test fails.
  onTestFinished(async () => void (await run(['kill', id])));
  return { id, open: () => writeFile(gate, ''), fail: () => writeFile(failing, '') };
}

async function running({ run }: Place, id: string): Promise<void> {
  const status = async (): Promise<string> => (await run(['status', id])).stdout;
  const allRun = (text: string): boolean => /watcher:0 +running/.test(text) && !/requested|launching|registered/.test(text);
  await until(async () => allRun(await status()), { describe: status });
}

describe.each([
  ['on YARN', onYarn],
  ['on this machine', onThisMachine],
])('%s', (_, place) => {
  test('events -f prints the same events as the history, and top redraws a job until the user presses q or the job ends', async () => {
    const at = await place();
    const { id, open } = await submitted(at);
    const following = at.start(['events', id, '-f', '--output', 'json']);
    await following.output(/^(?=.*"type":"program-started")(?=.*"role":"worker")(?=.*"index":0\b).*$/m);
    expect((await at.run(['events', id, '--type', 'program-started'])).stdout).toMatch(/ worker:0 +program-started /);
    await running(at, id);
    const tops = [80, 200].map((columns) => at.terminal(['top', id, '--interval', '200ms'], columns));
    for (const top of tops) {
      await top.sees(/worker:1 +running/);
      expect(top.lines()[0]).toBe(id);
      top.type('s');
      await top.sees(/s order: state/);
      top.type('\x1b[C');
      await top.sees(/s order: step/);
      top.type('q');
      expect(await top.exitCode).toBe(0);
      expect(top.brokenLines).toEqual([]);
      expect(top.lines()).toEqual([]);
      expect(top.cursorShown).toBe(true);
    }
    const again = [80, 200].map((columns) => at.terminal(['top', id, '--interval', '200ms'], columns));
    for (const top of again) {
      await top.sees(/worker:1 +running/);
    }
    await open();
    for (const top of again) {
      expect(await top.exitCode).toBe(0);
      expect(top.raw.indexOf(ENTERED)).toBeLessThan(top.raw.indexOf(LEFT));
      await top.sees(new RegExp(`${id} succeeded`));
      expect(top.cursorShown).toBe(true);
    }
    expect((await at.run(['top', id])).stdout).toContain(`${id} succeeded`);
    const { exitCode, stdout } = await following.result;
    expect(exitCode).toBe(0);
    const followed = jsonLines(stdout);
    expect(followed[0]).toMatchObject({ type: 'master-registered' });
    expect(followed.at(-1)).toMatchObject({ type: 'job-finished' });
    const kept = jsonLines((await at.run(['events', id, '--output', 'json'])).stdout);
    expect(followed).toEqual(kept);
    expect((await at.run(['events', id, '--type', 'nonsense'])).stderr).toContain('The job has no events of type nonsense.');
  });

  test('describe shows all data of a running job, and the first failure of an ended job', async () => {
    const at = await place();
    const { id, fail } = await submitted(at);
    await running(at, id);
    const page = (await at.run(['describe', id])).stdout;
    expect(page).toMatch(/^ {2}name +looked at$/m);
    expect(page).toMatch(/^ {2}worker +gang +2 +512 MiB +1 +never +bash run\.sh$/m);
    expect(page).toMatch(/^ {2}worker:1 +running .* ago\b/m);
    expect(page).toMatch(/^ {2}worker:1 +1 +container_\w+ /m);
    expect(page).toMatch(/^ {4}API_TOKEN: "\*\*\*"$/m);
    expect(page).not.toContain('a-secret-of-many-letters');
    expect(page.includes('attempt 1    RUNNING container_')).toBe(at.onYarn);
    if (at.onYarn) {
      await listShows(id);
    }
    await fail();
    await until(async () => (await at.run(['status', id])).stdout.includes(`${id} failed`), { describe: 'the job has failed' });
    // The job reports its end before YARN does.
    if (at.onYarn) {
      await cluster.ended(id);
    }
    const over = (await at.run(['describe', id])).stdout;
    expect(over).toMatch(/^first failure\n {2}worker:1: .*code 3\n {4}TypeError: loss is not a function\n/);
    const [value] = jsonLines((await at.run(['describe', id, '--output', 'json'])).stdout);
    expect(value).toMatchObject({
      kind: 'JobDescription',
      id,
      failure: { role: 'worker', index: 1, cause: { kind: 'program', exit: { code: 3 } }, lines: ['TypeError: loss is not a function'] },
      state: 'failed',
      roles: [{ name: 'worker' }, { name: 'watcher' }],
      tasks: [
        { role: 'worker', containers: [{ containerId: expect.stringMatching(/^container_/) }] },
        { failures: 1 },
        { role: 'watcher' },
      ],
      places: { history: expect.stringContaining(id), checkpoints: expect.stringContaining(id) },
      configuration: { job: { env: { API_TOKEN: '***' } } },
      yarn: at.onYarn ? { state: 'FINISHED', finalStatus: 'FAILED', attempts: [{ number: 1 }] } : null,
    });
    if (at.onYarn) {
      expect((await at.run(['list', '--state', 'failed'])).stdout).toMatch(new RegExp(`^${id} .*failed`, 'm'));
      await historyShows(id);
    }
  });

  test('kill lists the tasks and asks for confirmation in a terminal, but not in a pipe', async () => {
    const at = await place();
    const { id } = await submitted(at);
    await running(at, id);
    const refused = at.terminal(['kill', id], 80);
    await refused.sees(/Kill this job\? \[y\/N\] $/);
    expect(refused.text()).toMatch(
      new RegExp(`^${id} {2}looked at {2}running\n {2}2 worker on \\S+(, \\S+)?; 1 watcher on \\S+\n {2}the job has taken `),
    );
    refused.type('\r');
    expect(await refused.exitCode).toBe(130);
    expect(refused.text()).toContain('The job was not killed.');
    const interrupted = at.terminal(['kill', id], 80);
    await interrupted.sees(/Kill this job\?/);
    interrupted.type('\x03');
    expect(await interrupted.exitCode).toBe(130);
    if (at.onYarn) {
      await topShowsAllJobs(at, id);
    }
    const agreed = at.terminal(['kill', id], 80);
    await agreed.sees(/Kill this job\?/);
    agreed.type('y\r');
    expect(await agreed.exitCode).toBe(0);
    expect(agreed.text()).toMatch(new RegExp(`killed ${id} \\(looked at, 3 of 3 tasks were running\\)\n {2}2 worker on `));
    const again = await at.run(['kill', id, '--output', 'json']);
    expect(jsonLines(again.stdout)).toMatchObject([{ killed: false, state: 'killed', roles: [] }]);
    expect(again.exitCode).toBe(0);
    if (at.onYarn) {
      await noneLeft(cluster, id);
      expect((await at.run(['top'])).stdout).toBe('no running jobs of yours\n');
    }
  });
});

/** `top` without an ID shows all running jobs and updates the list. The job `id` runs. */
async function topShowsAllJobs(at: Place, id: string): Promise<void> {
  const other = await submitted(at, 'second of two');
  await running(at, other.id);
  const once = await at.run(['top']);
  expect(once.stdout).toMatch(/^2 jobs of yours/);
  expect(once.stdout).toMatch(new RegExp(`^${other.id} +second .*running .* 3/3`, 'm'));
  const top = at.terminal(['top', '--all-users', '--interval', '0.3'], 80);
  await top.sees(new RegExp(`${id} .*running`));
  await cluster.run(['kill', other.id]);
  await top.sees(/^1 job of all users/m);
  top.type('\x03');
  expect(await top.exitCode).toBe(0);
  expect(top.lines()).toEqual([]);
  expect(top.brokenLines).toEqual([]);
}

/** `list` shows progress and the reason for waiting, and filters jobs by state. The job `id` runs. */
async function listShows(id: string): Promise<void> {
  const list = async (...words: string[]): Promise<string> => (await cluster.run(['list', ...words])).stdout;
  expect(await list()).toMatch(new RegExp(`^${id} +looked .*running .* 3/3`, 'm'));
  expect(await list('--state', 'running', '--limit', '1')).toContain(id);
  expect((await cluster.run(['status', 'looked at'])).stdout).toContain(id);
  expect(await list('--state', 'waiting')).toBe('No jobs found.\n');
  expect(jsonLines(await list('--name', 'LOOKED', '--output', 'json'))).toMatchObject([
    { id, state: 'running', message: '', tasksRunning: 3, tasksTotal: 3 },
  ]);
  const folder = await temporaryFolder();
  const large =
    'name: large\nframework: none\nruntime: system\nmaster: {resources: {memory: 512m}}\nroles: {worker: {command: sleep 600, instances: 15, resources: {memory: 1g}}}\n';
  await writeFile(path.join(folder, 'job.yaml'), large);
  const waiting = ID.exec((await cluster.run(['submit', '--detach', '--conf', path.join(folder, 'job.yaml')])).stdout)?.[0] ?? '';
  onTestFinished(async () => void (await cluster.run(['kill', waiting])));
  await until(async () => new RegExp(`^${waiting} .*\n {4}Waiting for .* got no container`, 'm').test(await list('--state', 'waiting')), {
    describe: () => list(),
  });
  await cluster.run(['kill', waiting]);
  expect((await cluster.run(['list', '--state', 'runing'])).stderr).toContain('did you mean running?');
  expect((await cluster.run(['list', '--queue', 'defualt'])).stderr).toContain('The cluster has no queue defualt; did you mean default?');
  expect((await cluster.run(['list', '--limit', '0'])).exitCode).toBe(2);
}

/** Commands show a job from its history when the ResourceManager has forgotten it. The job `id` has failed. */
async function historyShows(id: string): Promise<void> {
  // YARN reports the application as ended while the ApplicationMaster still writes its last events.
  const events = `/user/alice/.tony-ts/history/${id}/events-1.jsonl`;
  await until(async () => (await cluster.hdfsRead(events)).includes('job-finished'), {
    describe: () => cluster.application(id),
  });
  const old = 'application_1000000000000_0001';
  const [from, to] = [id, old].map((each) => `/user/alice/.tony-ts/history/${each}`);
  for (const file of ['job.json', 'events-1.jsonl', 'final.json']) {
    const text = (await cluster.hdfsRead(`${from}/${file}`)).toString().replaceAll(id, old);
    await cluster.hdfsWrite(`${to}/${file}`, Buffer.from(text));
  }
  await cluster.hdfsGive(`${to}`, 'alice');
  expect((await cluster.run(['status', old])).stdout).toContain(`${old} failed`);
  const page = (await cluster.run(['describe', old])).stdout;
  expect(page).toMatch(/^first failure\n {2}worker:1: /);
  expect(page).not.toContain('YARN');
  expect((await cluster.run(['events', old, '--type', 'job-finished'])).stdout).toContain('failed');
  expect(await cluster.run(['kill', old])).toMatchObject({ exitCode: 0, stdout: `${old} had already ended: failed\n` });
  expect((await cluster.run(['describe', old], { env: { HADOOP_USER_NAME: 'bob' } })).stderr).toContain(`has no application ${old}`);
}

test.each(['TERM', 'INT', 'HUP'])('a signal (%s) ends top and restores the terminal', async (signal) => {
  const folder = await temporaryFolder();
  const gate = path.join(folder, 'go');
  const script = `(until [ -e ${gate} ]; do sleep 0.1; done; kill -${signal} $$) & exec "$@"`;
  const words = ['bash', '-c', script, 'bash', process.execPath, COMMAND, 'top', '--local', '--interval', '200ms'];
  const top = openTerminal(words, { columns: 80, env: { HOME: folder } });
  await top.sees(/no running jobs on this machine/);
  await writeFile(gate, '');
  expect(await top.exitCode).toBe(130);
  expect(top.raw.endsWith(LEFT)).toBe(true);
  expect(top.cursorShown).toBe(true);
  expect(top.lines()).toEqual([]);
});
