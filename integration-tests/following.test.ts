import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { listJobs } from '../client/listing/list-jobs.ts';
import { apiObject } from '../conf/status/api-object.ts';
import { COMMAND, type Command, type CommandOptions, type CommandResult, environment, ROOT, runCommand, startCommand } from './command.ts';
import { execute } from './execute.ts';
import { jsonLines, noneLeft, temporaryFolder, until, useCluster } from './harness.ts';

/** Client commands for jobs on YARN and on this machine: following a job, `status`, `logs` and `kill`, with their exit codes. */

const cluster = useCluster();

interface Place {
  /** Variables that select the cluster and the user. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly run: (words: readonly string[], options?: CommandOptions) => Promise<CommandResult>;
  readonly start: (words: readonly string[]) => Command;
  readonly submit: readonly string[];
}

async function onYarn(): Promise<Place> {
  return {
    env: cluster.clientEnvironment(),
    run: (words, options) => cluster.run(words, options),
    start: (words) => cluster.startCommand(words),
    submit: ['submit'],
  };
}

async function onThisMachine(): Promise<Place> {
  const env = { HOME: await temporaryFolder(), HADOOP_CONF_DIR: undefined };
  return {
    env,
    run: (words, options) => runCommand(words, { ...options, env: { ...env, ...options?.env } }),
    start: (words) => startCommand(words, { env }),
    submit: ['submit', '--local'],
  };
}

async function job(script: string): Promise<string> {
  const folder = await temporaryFolder();
  await mkdir(path.join(folder, 'source'));
  await writeFile(path.join(folder, 'source', 'run.sh'), script);
  const lines = [
    'name: followed',
    'framework: none',
    'runtime: system',
    'source: source',
    'command: bash run.sh',
    'roles: {worker: {instances: 2, restart: {policy: never}, resources: {memory: 512m}}}',
    'master: {resources: {memory: 512m}}',
  ];
  await writeFile(path.join(folder, 'job.yaml'), `${lines.join('\n')}\n`);
  return path.join(folder, 'job.yaml');
}

const ID = /(?:application|local)_\d+_\d+/;

/** Runs `logs` until YARN has collected the logs of an ended job. */
function logsAfterEnd(read: () => Promise<CommandResult>): Promise<CommandResult> {
  const complete = async (): Promise<CommandResult | null> => {
    const logs = await read();
    return logs.exitCode === 0 ? logs : null;
  };
  return until(complete, { describe: 'logs after the end' });
}

/** Uses each function of the Python client with one job. Arguments: the command, the job file, and `local` or `cluster`. */
const PYTHON_CLIENT = `
import json, sys
from tony.client import Client, TonyError

node, command, file, place = sys.argv[1:]
client, seen, errors = Client([node, command]), [], []
try:
    client.submit(file, set={"priority": "high"}, local=place == "local")
except TonyError as error:
    errors.append([error.code, error.message, error.hint])
job = client.submit(file, set={"env.SUFFIX": "!"}, local=place == "local", on_event=lambda event: seen.append(event["type"]))
lines = client.logs(job.id, "worker:0", follow=True)
line = next(lines)
lines.close()
status = client.status(job.id)
try:
    client.wait(job.id, timeout=1)
except TimeoutError as error:
    errors.append(str(error))
killed = client.kill(job.id)
result = client.wait(job.id)
try:
    result.check()
except TonyError as error:
    errors.append([error.code, error.message])
print(json.dumps({
    "id": job.id, "submitted": "submitted" in seen, "line": [line.task, line.file, line.text],
    "status": [status.state, status.ended, status.tasks[0].role, status.name],
    "killed": [killed.killed, client.kill(job.id).killed], "result": [result.state, client.status(job.id).state], "errors": errors,
}))
`;

describe.each([
  ['on YARN', onYarn],
  ['on this machine', onThisMachine],
])('%s', (_, open) => {
  test('a job that succeeds ends with exit code 0 and its result, and shows its logs and status', async () => {
    const { run, submit } = await open();
    const file = await job(`echo "hello from $TONY_ROLE $TONY_INDEX"; echo careful >&2\n`);
    const { exitCode, stdout, stderr } = await run([...submit, '--conf', file, '--output', 'json', '--logs', 'all']);
    expect(stderr).toBe('');
    expect(exitCode).toBe(0);
    const lines = jsonLines(stdout);
    expect(lines.flatMap(({ type, task, file, text }) => (type === 'log' ? [`${task} ${file} ${text}`] : [])).sort()).toEqual([
      'worker:0 stderr careful',
      'worker:0 stdout hello from worker 0',
      'worker:1 stderr careful',
      'worker:1 stdout hello from worker 1',
    ]);
    expect(lines.at(-1)).toMatchObject({
      type: 'result',
      state: 'succeeded',
      id: expect.stringMatching(ID),
      tasks: [
        { role: 'worker', index: 0, state: 'succeeded', exit: { code: 0, signal: null } },
        { role: 'worker', index: 1, state: 'succeeded', exit: { code: 0, signal: null } },
      ],
      metrics: {},
      generations: 1,
    });
    const id = ID.exec(stdout)?.[0] ?? '';
    const status = await run(['status', id]);
    expect(status.stdout).toContain(`${id} succeeded`);
    const logs = await logsAfterEnd(() => run(['logs', id]));
    expect(logs.stdout).toBe('worker:0 | hello from worker 0\nworker:1 | hello from worker 1\n');
    expect(logs.stderr).toBe('worker:0 | careful\nworker:1 | careful\n');
    expect((await run(['logs', id, 'worker:1'])).stdout).toBe('hello from worker 1\n');
    expect((await run(['logs', id, 'worker', '--executor'])).stdout).not.toBe('');
    expect((await run(['logs', id, 'wroker'])).stderr).toContain('did you mean worker?');
    expect(await run(['kill', id])).toMatchObject({ exitCode: 0, stdout: `${id} had already ended: succeeded\n` });
  });

  test('a job whose program fails ends with exit code 1, and shows the first failing task and its last lines', async () => {
    const { env, run, submit } = await open();
    const file = await job(
      'echo "$TONY_INDEX starts"; if [ "$TONY_INDEX" = 1 ]; then for i in $(seq 1 50); do echo "boom $i" >&2; done; exit 3; fi; sleep 60\n',
    );
    // By default, the command shows the output of the chief.
    const isLocal = submit.includes('--local');
    const { exitCode, stdout, stderr } = await run([...submit, '--conf', file, ...(isLocal ? ['--logs', 'none'] : [])]);
    expect(exitCode).toBe(1);
    expect(stderr).toBe('');
    const [before = '', end = ''] = stdout.split(/(?=^\S+ failed$)/m);
    expect(before.split('\n').filter((line) => line.includes(' | '))).toEqual(isLocal ? [] : ['worker:0 | 0 starts']);
    const id = ID.exec(stdout)?.[0] ?? '';
    const status = await run(['status', id]);
    expect(status.exitCode).toBe(0);
    const texts = [end, status.stdout];
    if (env.HADOOP_CONF_DIR !== undefined) {
      const yarn = await cluster.ended(id);
      expect(yarn).toMatchObject({ state: 'FINISHED', finalStatus: 'FAILED' });
      texts.push(yarn.diagnostics);
    }
    for (const text of texts) {
      expect(text).toMatch(/worker:1.*\b3\b/);
      expect(text).toContain('boom 50');
    }
  });

  test('logs -f shows lines as they are written, and ends with the job', async () => {
    const { run, start, submit } = await open();
    const gate = path.join(await temporaryFolder(), 'go');
    const file = await job(
      `echo "line 1"; while [ ! -e ${gate} ]; do sleep 0.1; done; for i in 2 3 4 5 6; do echo "line $i"; sleep 0.2; done\n`,
    );
    const { stdout } = await run([...submit, '--conf', file, '--detach']);
    const id = ID.exec(stdout)?.[0] ?? '';
    const logs = start(['logs', id, 'worker:0', '-f']);
    await logs.output(/^line 1$/m);
    expect((await run(['status', id, '--output', 'json'])).stdout).toContain('"state":"running"');
    await writeFile(gate, '');
    expect(await logs.result).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/line 6\n$/) });
  });

  test('attach follows a running job, and its exit code is the result of the job', async () => {
    const { run, start, submit } = await open();
    const gate = path.join(await temporaryFolder(), 'go');
    const file = await job(`while [ ! -e ${gate} ]; do sleep 0.1; done; exit 7\n`);
    const { stdout } = await run([...submit, '--conf', file, '--detach']);
    const id = ID.exec(stdout)?.[0] ?? '';
    const attached = start(['attach', id, '--output', 'json']);
    await attached.output(/"state":"running"/);
    await writeFile(gate, '');
    const { exitCode, stdout: followed } = await attached.result;
    expect(exitCode).toBe(1);
    expect(jsonLines(followed).at(-1)).toMatchObject({ type: 'result', state: 'failed', id });
    expect(await run(['attach', id])).toMatchObject({ exitCode: 1, stdout: expect.stringContaining(`${id} failed`) });
  });

  test('the Python client submits, follows and kills a job, and raises the errors of the command', async () => {
    const { env, submit } = await open();
    const file = await job('echo "hello$SUFFIX"; sleep 100\n');
    const words = ['-c', PYTHON_CLIENT, process.execPath, COMMAND, file, submit.includes('--local') ? 'local' : 'cluster'];
    const python = { ...env, PYTHONPATH: path.join(ROOT, 'python'), PYTHONDONTWRITEBYTECODE: '1' };
    const { stdout } = await execute('python3', words, { env: environment(python) });
    const seen = JSON.parse(stdout) as { readonly id: string };
    expect(seen).toEqual({
      id: expect.stringMatching(ID),
      submitted: true,
      line: ['worker:0', 'stdout', 'hello!'],
      status: ['running', false, 'worker', 'followed'],
      killed: [true, false],
      result: ['killed', 'killed'],
      errors: [
        ['JOB_INVALID', expect.stringContaining('priority'), expect.stringContaining('submit again')],
        'tony-ts attach did not end within 1 s',
        ['JOB_FAILED', expect.stringContaining('was killed')],
      ],
    });
  });

  test('a follower exits with 1 when another client kills the job', async () => {
    const { run, start, submit } = await open();
    const following = start([...submit, '--conf', await job('sleep 100\n')]);
    const id = (await following.output(ID))[0];
    await Promise.all([following.output(/worker:0 running/), following.output(/worker:1 running/)]);
    expect(await run(['kill', id])).toMatchObject({
      exitCode: 0,
      stdout: expect.stringContaining(`killed ${id} (followed, 2 of 2 tasks were running)`),
    });
    const { exitCode, stdout } = await following.result;
    expect(exitCode).toBe(1);
    expect(stdout).toContain(`${id} killed`);
    expect((await run(['status', id])).stdout).toContain(`${id} killed`);
  });
});

test("on YARN, a container gets the variables of YARN's Docker runtime, and a cluster without Docker is noted", async () => {
  const file = await job('env | grep ^YARN_CONTAINER_RUNTIME | sort\n');
  const docker = '{image: "ml/train:1", mounts: ["/data:/data:ro"], network: host}';
  const sets = [
    'roles.worker.instances=1',
    `roles.worker.docker=${docker}`,
    'priority=1',
    'master.failureWindow=1h',
    'master.logLevel=debug',
  ];
  const { exitCode, stdout } = await cluster.run(['submit', '--conf', file, ...sets.flatMap((set) => ['--set', set])]);
  expect(exitCode).toBe(0);
  expect(stdout.replace(/\s+/g, ' ')).toContain('worker sets docker, but yarn.nodemanager.runtime.linux.allowed-runtimes');
  const id = ID.exec(stdout)?.[0] ?? '';
  const logs = await logsAfterEnd(() => cluster.run(['logs', id]));
  expect(logs.stdout.trim().split('\n')).toEqual([
    'worker:0 | YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_NETWORK=host',
    'worker:0 | YARN_CONTAINER_RUNTIME_DOCKER_IMAGE=ml/train:1',
    'worker:0 | YARN_CONTAINER_RUNTIME_DOCKER_MOUNTS=/data:/data:ro',
    'worker:0 | YARN_CONTAINER_RUNTIME_TYPE=docker',
  ]);
});

test('on YARN, a job continues when its follower is interrupted', async () => {
  const following = cluster.startCommand(['submit', '--conf', await job('sleep 100\n')]);
  const id = (await following.output(ID))[0];
  await following.output(/worker:1 running/);
  following.signal('SIGINT');
  expect(await following.result).toMatchObject({ exitCode: 130, stdout: expect.stringContaining('the job continues') });
  expect(await cluster.application(id)).toMatchObject({ state: 'RUNNING' });
  await cluster.run(['kill', id]);
  await noneLeft(cluster, id);
});

test.each(['SIGINT', 'SIGKILL'] as const)('on this machine, a job ends with the client that follows it (%s)', async (signal) => {
  const { run, start, submit } = await onThisMachine();
  const following = start([...submit, '--conf', await job('sleep 100\n')]);
  const id = (await following.output(ID))[0];
  await following.output(/worker:1 running/);
  following.signal(signal);
  const { exitCode, stdout } = await following.result;
  if (signal === 'SIGINT') {
    expect(exitCode).toBe(130);
    expect(stdout).toMatch(new RegExp(`${id} killed\nThe user interrupted the command that ran the job\\.\nlogs: tony-ts logs ${id}\n$`));
  }
  await until(async () => (await run(['status', id])).stdout.includes(`${id} killed`), { describe: 'the job is killed' });
});

test('listJobs({ local: true }) returns the same jobs as the command list --local', async () => {
  const home = await temporaryFolder();
  const env = { HOME: home, HADOOP_CONF_DIR: undefined };
  await runCommand(['submit', '--local', '--conf', await job('true\n')], { env });
  const jobs = await listJobs({ local: true, ended: true, localRoot: path.join(home, '.tony-ts', 'local') });
  expect(jobs).toMatchObject([{ name: 'followed', state: 'succeeded' }]);
  const { stdout } = await runCommand(['list', '--local', '--all', '--output', 'json'], { env });
  expect(jsonLines(stdout)).toEqual(JSON.parse(JSON.stringify(jobs.map((each) => apiObject('Job', each)))));
});
