import { readdir, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, describe, expect, onTestFailed, test, vi } from 'vitest';
import { ensureTensorBoard } from '../../client/python/ensure-tensorboard.ts';
import type { JobStatus } from '../../conf/status/status.ts';
import { containerExecutorProblem } from '../cluster/container-executor.mjs';
import { type CommandResult, ROOT } from '../command.ts';
import { execute } from '../execute.ts';
import { jsonLines, noneLeft, temporaryFolder, until, useOwnCluster } from '../harness.ts';
import { smallMnist } from '../small-mnist.ts';

/**
 * Jobs of two users on NodeManagers with the LinuxContainerExecutor, which runs containers as the job's user. Hadoop's program
 * `container-executor` is in no Maven package, so the tests need a developer who provides it (docs/development.md).
 */

vi.setConfig({ testTimeout: 900_000, hookTimeout: 600_000 });
const problem = containerExecutorProblem();

test('this machine can run the profile container-executor', ({ skip }) => {
  skip(problem !== null, problem ?? '');
});

describe.skipIf(problem !== null).each(['container-executor', 'kerberos+container-executor'])('%s', (profile) => {
  const cluster = useOwnCluster(profile);

  const as = (user: string, words: readonly string[]): Promise<CommandResult> => cluster.run(words, { env: cluster.environment(user) });

  async function submit(user: string, lines: readonly string[], files: Readonly<Record<string, string>> = {}): Promise<string> {
    const folder = await temporaryFolder();
    for (const [name, content] of Object.entries({ ...files, 'job.yaml': `${lines.join('\n')}\n` })) {
      await writeFile(path.join(folder, name), content);
    }
    const { stdout, stderr, exitCode } = await as(user, ['submit', '--conf', path.join(folder, 'job.yaml'), '--detach']);
    expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: 0 });
    const id = /application_\d+_\d+/.exec(stdout)?.[0] ?? '';
    onTestFailed(() => as(user, ['kill', id]).then(() => undefined));
    return id;
  }

  async function statusOf(user: string, id: string): Promise<JobStatus | null> {
    const [answer] = jsonLines((await as(user, ['status', id, '--output', 'json'])).stdout);
    return (answer as JobStatus | undefined) ?? null;
  }

  function reached(user: string, id: string, condition: (status: JobStatus) => boolean): Promise<JobStatus> {
    return until(
      async () => {
        const status = await statusOf(user, id);
        return status !== null && condition(status) && status;
      },
      { describe: () => statusOf(user, id) },
    );
  }

  const isRunning = ({ tasks }: JobStatus): boolean => tasks.every(({ state }) => state === 'running');

  /** Returns the short names of the users that run the processes of a job's containers. */
  async function usersOf(id: string): Promise<string[]> {
    const pids = (await cluster.containers(id)).map(({ pid }) => pid);
    const uids = new Set((await Promise.all(pids.map((pid) => stat(`/proc/${pid}`).catch(() => null)))).flatMap((each) => each?.uid ?? []));
    return Promise.all([...uids].map(async (uid) => (await execute('id', ['-un', String(uid)])).stdout.trim()));
  }

  /** Runs a command as another user of the machine, who belongs to no further group. */
  async function runAs(user: string, words: readonly string[]): Promise<string> {
    const ids = ['--reuid', user, '--regid', user, '--clear-groups'];
    return (await execute('setpriv', [...ids, ...words]).catch((error: { stdout: string }) => error)).stdout;
  }

  const places = (...names: readonly string[]): string[] =>
    ['nodemanager1', 'nodemanager2'].flatMap((node) => names.map((name) => path.join(cluster.state, 'data', node, name)));

  describe('training', () => {
    beforeAll(() => ensureTensorBoard((line) => console.log(line)));

    test('MNIST trains as its user through the loss of a worker, with checkpoints and TensorBoard', async () => {
      const id = await submit('alice', [
        'name: mnist',
        `source: ${path.join(ROOT, 'examples', 'mnist')}`,
        `data: {mnist: ${await smallMnist(25_600)}}`,
        'roles:',
        '  worker: {instances: 2, command: node train.ts, resources: {memory: 1.5g}}',
        'tensorboard: true',
        'checkpoint: {everySteps: 25}',
        'heartbeat: {interval: 500ms, missed: 20}',
      ]);
      const { tasks } = await reached(
        'alice',
        id,
        ({ checkpointStep, tensorboard }) => checkpointStep > 0 && tensorboard.state === 'ready',
      );
      expect(await usersOf(id)).toEqual(['alice']);
      const victim = tasks.find(({ role, index }) => role === 'worker' && index === 1)?.containerId;
      const programs = (await cluster.containers(id)).filter(
        ({ containerId, command }) => containerId === victim && /^\S*node\b.*train\.ts/.test(command),
      );
      expect(programs).toHaveLength(1);
      process.kill(programs[0]?.pid as number, 'SIGKILL');
      expect(await cluster.ended(id)).toMatchObject({ finalStatus: 'SUCCEEDED', user: 'alice' });
      await noneLeft(cluster, id);
      const final = JSON.parse((await cluster.hdfsRead(`/user/alice/.tony-ts/history/${id}/final.json`)).toString()) as JobStatus;
      expect(final).toMatchObject({ generations: 2, masterAttempt: 1 });
      const logs = await as('alice', ['logs', id, 'worker:0']);
      expect(logs.stdout, logs.stderr).toMatch(/^test accuracy: (8|9)\d\.\d\d %$/m);
      // The NodeManager deletes the folders as the job's user.
      for (const folder of places('local/usercache/alice/appcache')) {
        await until(async () => (await readdir(folder).catch(() => [])).length === 0, { describe: () => readdir(folder) });
      }
    });
  });

  test('a program finds its Python packages and a home folder in which it can write, and its user can look into the task', async () => {
    const program =
      'import getpass, os, pathlib, idna; (pathlib.Path.home() / "settings").write_text("x"); print(idna.__version__, getpass.getuser())';
    const lines = [
      'name: python',
      'framework: none',
      'runtime: system',
      'command: python3 main.py && until [ -e go ]; do sleep 0.1; done',
      'python: {requirements: requirements.txt}',
      'roles: {worker: {instances: 2, resources: {memory: 256m}}}',
    ];
    const id = await submit('bob', lines, { 'requirements.txt': 'idna==3.10\n', 'main.py': program });
    await reached('bob', id, isRunning);
    expect(await usersOf(id)).toEqual(['bob']);
    for (const task of ['worker:0', 'worker:1']) {
      const inside = await as('bob', ['exec', id, task, '--', 'sh', '-c', 'id -un; echo $USER; touch ~/again go']);
      expect(inside, inside.stderr).toMatchObject({ exitCode: 0, stdout: 'bob\nbob\n' });
    }
    expect(await cluster.ended(id)).toMatchObject({ finalStatus: 'SUCCEEDED' });
    expect((await as('bob', ['logs', id])).stdout.match(/3\.10 bob$/gm)).toHaveLength(2);
  });

  test('another user of a node can read no file, socket, environment or log of a job, and the NodeManager can read its logs', async () => {
    const lines = ['name: private', 'framework: none', 'command: umask 000; touch open; echo out; exec sleep 600'];
    const id = await submit('alice', [...lines, 'roles: {worker: {instances: 2, resources: {memory: 256m}}}']);
    await reached('alice', id, isRunning);
    const folders = places(`local/usercache/alice/appcache/${id}`, `logs/${id}`);
    const hidden = async (user: string): Promise<string[]> => {
      const found = await runAs(user, ['find', ...folders, ...places('local/nmPrivate', 'local/usercache/alice'), '-readable']);
      return found.split('\n').filter((each) => each !== '');
    };
    expect(await hidden('bob')).toEqual([]);
    expect((await hidden('alice')).length).toBeGreaterThan(10);
    for (const { pid } of await cluster.containers(id)) {
      expect(await runAs('bob', ['sh', '-c', `cat /proc/${pid}/environ; ls /proc/${pid}/fd /proc/${pid}/cwd/`])).toBe('');
    }
    // NodeManagers usually run as a user that is in the group of the files.
    const { stdout } = await execute('find', [...places(`logs/${id}`), '-type', 'f', '!', '-perm', '-040']);
    expect(stdout).toBe('');
    await as('alice', ['kill', id]);
    expect(await cluster.ended(id)).toMatchObject({ finalStatus: 'KILLED' });
  });

  test('no process outlives a killed job, even if it ignores SIGTERM or has its own session', async () => {
    const command = `trap "" TERM; setsid sleep 600 & (trap "" TERM; sleep 600) & wait`;
    const lines = ['name: stubborn', 'framework: none', `command: '${command}'`];
    const id = await submit('bob', [...lines, 'roles: {worker: {instances: 2, resources: {memory: 256m}}}']);
    await reached('bob', id, isRunning);
    expect(await as('bob', ['kill', id])).toMatchObject({ exitCode: 0 });
    expect(await cluster.ended(id)).toMatchObject({ finalStatus: 'KILLED' });
    await noneLeft(cluster, id);
  });
});
