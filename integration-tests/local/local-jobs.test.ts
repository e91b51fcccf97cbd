import { execFileSync, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { localPaths } from '../../client/files/local-layout.ts';
import { CONTAINER_LAYOUT, CREDENTIALS } from '../../conf/job.ts';
import type { JobStatus } from '../../conf/status/status.ts';
import { decodeCredentials } from '../../hadoop/rpc/credentials.ts';
import { type CommandResult, startCommand } from '../command.ts';
import { isAlive } from '../executor/test-master.ts';
import { temporaryFolder, until } from '../harness.ts';

/** Failures of local jobs. Their ApplicationMaster and executors run as processes on this machine, without YARN or HDFS. */

/**
 * Prints its task, writes its pid to `$OUT/<role>-<index>-<generation>`, and runs until the file `go` exists. If the file
 * `fail-<role>-<index>` exists, deletes it and fails.
 */
const PROGRAM = `
  me=$TONY_ROLE-$TONY_INDEX
  echo $$ > $OUT/tmp-$me && mv $OUT/tmp-$me $OUT/$me-$TONY_GENERATION
  if [ -e $OUT/fail-$me ]; then rm $OUT/fail-$me; for i in 1 2 3; do echo "cause $i" >&2; done; exit 3; fi
  sleep 1000 &
  while [ ! -e $OUT/go ]; do sleep 0.05; done
  kill %1`;

interface Job {
  readonly id: string;
  readonly out: string;
  readonly paths: ReturnType<typeof localPaths>;
  pid(task: string, generation: number): Promise<number>;
  ran(task: string, generation: number): boolean;
  go(): void;
  status(): Promise<JobStatus>;
  executor(role: string, index: number): Promise<number>;
  final(): Promise<JobStatus>;
  quiet(): Promise<void>;
}

async function startJob(
  options: { framework?: string; yaml?: string; fail?: readonly string[]; attached?: boolean; path?: string } = {},
): Promise<Job & { command: ReturnType<typeof startCommand> }> {
  const folder = await temporaryFolder();
  const root = path.join(folder, 'root');
  const out = path.join(folder, 'out');
  mkdirSync(out);
  for (const task of options.fail ?? []) {
    writeFileSync(path.join(out, `fail-${task}`), '');
  }
  const file = path.join(folder, 'job.yaml');
  const yaml = `
name: bad-day
framework: ${options.framework ?? 'none'}
env: {OUT: ${out}}
command: |
${PROGRAM.trim().replace(/^\s*/gm, '  ')}
${options.yaml ?? 'roles: {worker: {instances: 2, kind: gang}}'}
`;
  writeFileSync(file, yaml);
  const words = ['submit', '--local', '--conf', file, ...(options.attached ? [] : ['--detach'])];
  const command = startCommand(words, {
    env: { TONY_LOCAL_DIR: root, HADOOP_CONF_DIR: undefined, PATH: options.path ?? process.env.PATH },
  });
  const [id] = await command.output(/local_\d+_\d+/);
  const paths = localPaths(root, id);
  const job: Job = {
    id,
    out,
    paths,
    pid: (task, generation) =>
      until(() => Number(readFileSync(path.join(out, `${task}-${generation}`), 'utf8')), {
        describe: async () => ({
          awaited: `${task} in generation ${generation}`,
          there: readdirSync(out),
          status: await job.status().catch(() => null),
        }),
        everyMs: 20,
      }),
    ran: (task, generation) => existsSync(path.join(out, `${task}-${generation}`)),
    go: () => writeFileSync(path.join(out, 'go'), ''),
    status: async () => {
      const { http, token } = JSON.parse(readFileSync(paths.masterAddress, 'utf8')) as { http: string; token: string };
      const answer = await fetch(`${http}/tony/api/v1/job`, {
        headers: { authorization: `Bearer ${token}` },
        signal: AbortSignal.timeout(5_000),
      });
      return (await answer.json()) as JobStatus;
    },
    executor: async (role, index) => {
      const { tasks } = await job.status();
      const { containerId } = tasks.find((task) => task.role === role && task.index === index) ?? {};
      return (JSON.parse(readFileSync(path.join(paths.containers, containerId ?? '', 'container.json'), 'utf8')) as { pid: number }).pid;
    },
    final: () =>
      until(() => JSON.parse(readFileSync(path.join(paths.history, 'final.json'), 'utf8')) as JobStatus, {
        describe: () => job.status().catch(() => 'no answer'),
        everyMs: 50,
      }),
    quiet: async () => {
      await until(() => processesOf(paths.job).length === 0, {
        describe: () => processesOf(paths.job).map(({ cmdline }) => cmdline.replaceAll('\0', ' ')),
      });
    },
  };
  onTestFinished(() => {
    for (const { pid } of processesOf(paths.job)) {
      killQuietly(pid);
    }
  });
  return { ...job, command };
}

/** Returns a PATH on which `nvidia-smi -L` prints what the driver's program prints on a machine with this many GPUs. */
async function pathWithGpus(count: number): Promise<string> {
  const folder = await temporaryFolder();
  // The UUIDs are new, because the claims of other tests on this machine would conflict.
  const lines = Array.from({ length: count }, (_, index) => `GPU ${index}: NVIDIA H100 80GB HBM3 (UUID: GPU-${randomUUID()})`);
  writeFileSync(path.join(folder, 'nvidia-smi'), `#!/bin/sh\ncase "$1" in -L) cat <<END\n${lines.join('\n')}\nEND\nesac\n`, {
    mode: 0o755,
  });
  return `${folder}:${process.env.PATH}`;
}

/** Returns all processes of a job. Their environment contains the job's folder. */
function processesOf(folder: string): { pid: number; cmdline: string; environ: string }[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0 && isAlive(pid))
    .flatMap((pid) => {
      try {
        const environ = readFileSync(`/proc/${pid}/environ`, 'latin1');
        return environ.includes(folder) ? [{ pid, cmdline: readFileSync(`/proc/${pid}/cmdline`, 'latin1'), environ }] : [];
      } catch {
        return [];
      }
    });
}

function killQuietly(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // The process has ended.
  }
}

async function bothRun(job: Job, generation: number): Promise<readonly [number, number]> {
  return Promise.all([job.pid('worker-0', generation), job.pid('worker-1', generation)]);
}

async function succeeds(job: Job): Promise<JobStatus> {
  job.go();
  const final = await job.final();
  expect(final.message).toBe('');
  expect(final.state).toBe('succeeded');
  expect(final.tasks.map(({ state }) => state)).toEqual(final.tasks.map(() => 'succeeded'));
  await job.quiet();
  return final;
}

describe('a job on this machine', () => {
  test('runs a command without a job file, and passes its words on unchanged', async () => {
    const folder = await temporaryFolder();
    const words = ['--rate', '1.0', 'a  b', '$HOME'];
    const options = ['--source', 'none', '--framework', 'none', '--set', 'runtime=system', '--env', `OUT=${folder}`];
    const program = ['bash', '-c', 'echo shown; printf "%s\\0" "$@" > $OUT/words', 'bash', ...words];
    const { result } = startCommand(['submit', '--local', '--quiet', ...options, '--', ...program], {
      env: { TONY_LOCAL_DIR: path.join(folder, 'root'), HADOOP_CONF_DIR: undefined },
    });
    expect(await result).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/^local_\d+_\d+\n$/), stderr: '' });
    expect(readFileSync(path.join(folder, 'words'), 'utf8')).toBe(words.map((word) => `${word}\0`).join(''));
  });

  test('fails with the program’s last lines when a program without restarts fails', async () => {
    const job = await startJob({
      fail: ['worker-1'],
      attached: true,
      yaml: 'roles: {worker: {instances: 2, kind: gang, restart: {policy: never}}}',
    });
    const { exitCode, stdout }: CommandResult = await job.command.result;
    expect(exitCode).toBe(1);
    expect(stdout).toContain('failed');
    const final = await job.final();
    expect(final.state).toBe('failed');
    expect(final.message).toMatch(/worker:1/);
    expect(final.message).toContain('cause 3');
    await job.quiet();
  });

  test('continues in new generations when a program fails, and when executors and programs are killed and stopped', async () => {
    // The timeout is long enough for an executor on a busy machine, and short enough to detect the suspended process soon.
    const yaml = 'heartbeat: {interval: 500ms, missed: 12}\nroles: {worker: {instances: 2, kind: gang, restart: {maxRestarts: 5}}}';
    const job = await startJob({ fail: ['worker-1'], yaml });
    let programs = await bothRun(job, 2);
    const { generations, tasks } = await job.status();
    expect({ generations, failures: tasks.map(({ failures }) => failures) }).toEqual({ generations: 2, failures: [0, 1] });
    const faults = [
      ['executor', 'SIGKILL'],
      ['executor', 'SIGSTOP'],
      ['program', 'SIGKILL'],
      ['program', 'SIGSTOP'],
    ] as const;
    for (const [index, [who, signal]] of faults.entries()) {
      const [first, second] = programs;
      process.kill(who === 'executor' ? await job.executor('worker', 1) : second, signal);
      programs = await bothRun(job, index + 3);
      // Worker 0's executor ends the old program before it starts the new one. Worker 1's executor may be unreachable, so the container of
      // the old program may still be running when the replacement starts. The ApplicationMaster rejects the old generation.
      expect(isAlive(first), `${who} ${signal}`).toBe(false);
      await until(() => !isAlive(second), { describe: `the old program still runs after ${signal} of the ${who}`, everyMs: 20 });
    }
    expect((await succeeds(job)).generations).toBe(6);
  });

  test('restarts a failed evaluator without a new generation', async () => {
    const job = await startJob({ yaml: 'roles: {worker: {instances: 1, kind: gang}, evaluator: {instances: 1}}' });
    const worker = await job.pid('worker-0', 1);
    const file = readdirSync(job.out).find((name) => name.startsWith('evaluator-0-')) ?? '';
    const evaluator = await until(
      () => Number(readFileSync(path.join(job.out, readdirSync(job.out).find((name) => name.startsWith('evaluator-0-')) ?? file), 'utf8')),
      { describe: 'the evaluator runs' },
    );
    process.kill(evaluator, 'SIGKILL');
    await until(
      () =>
        readdirSync(job.out).some(
          (name) => name.startsWith('evaluator-0-') && Number(readFileSync(path.join(job.out, name), 'utf8')) !== evaluator,
        ),
      { describe: () => job.status() },
    );
    expect(isAlive(worker)).toBe(true);
    expect((await succeeds(job)).generations).toBe(1);
  });

  test('continues when the ApplicationMaster is killed, because the following client starts a second attempt', async () => {
    const { command, ...job } = await startJob({ attached: true });
    const programs = await bothRun(job, 1);
    const containers = async () => (await job.status()).tasks.map(({ containerId }) => containerId);
    const before = await containers();
    const master = (JSON.parse(readFileSync(job.paths.masterAddress, 'utf8')) as { pid: number }).pid;
    process.kill(master, 'SIGKILL');
    await until(async () => (await job.status()).masterAttempt === 2, { describe: () => job.status().catch(() => 'no answer') });
    await until(async () => (await job.status()).state === 'running', { describe: () => job.status().catch(() => 'no answer') });
    expect(await containers()).toEqual(before);
    expect(programs.every(isAlive)).toBe(true);
    const final = await succeeds(job);
    expect(final).toMatchObject({ generations: 1, masterAttempt: 2 });
    expect(final.tasks.map(({ failures, attempts }) => [failures, attempts])).toEqual([
      [0, 1],
      [0, 1],
    ]);
    expect((await command.result).exitCode).toBe(0);
  });

  test('starts a new generation in the second attempt when an executor died with the ApplicationMaster', async () => {
    const job = await startJob();
    const programs = await bothRun(job, 1);
    const executor = await job.executor('worker', 0);
    const master = (JSON.parse(readFileSync(job.paths.masterAddress, 'utf8')) as { pid: number }).pid;
    process.kill(master, 'SIGKILL');
    process.kill(executor, 'SIGKILL');
    await until(() => !isAlive(master) && !isAlive(programs[0]), { describe: 'the ApplicationMaster and the program are dead' });
    await startSecondAttempt(job);
    await bothRun(job, 2);
    expect(programs.filter(isAlive)).toEqual([]);
    expect((await succeeds(job)).generations).toBe(2);
  });

  test('leaves no processes when it is killed', async () => {
    const job = await startJob();
    const programs = await bothRun(job, 1);
    const { pid } = JSON.parse(readFileSync(job.paths.masterAddress, 'utf8')) as { pid: number };
    process.kill(pid, 'SIGTERM');
    expect(await job.final()).toMatchObject({ state: 'killed' });
    await job.quiet();
    expect(programs.filter(isAlive)).toEqual([]);
  });

  test('leaves its history but no processes, keeps secrets out of arguments, environments, logs, job.json and history, and makes files with secrets private', async () => {
    const job = await startJob();
    await bothRun(job, 1);
    expect(await job.status()).toMatchObject({ state: 'running', generations: 1, masterAttempt: 1 });
    const file = path.join(job.paths.work(job.paths.masterContainer(1)), 'credentials');
    const { secrets } = decodeCredentials(readFileSync(file));
    const jobSecret = Buffer.from(secrets.get(CREDENTIALS.jobSecret)?.reveal() ?? []);
    const key = Buffer.from(secrets.get(CREDENTIALS.privateKey)?.reveal() ?? []).toString();
    const { token } = JSON.parse(readFileSync(job.paths.masterAddress, 'utf8')) as { token: string };
    const canaries = [
      jobSecret.toString('hex'),
      jobSecret.toString('base64'),
      jobSecret.toString('latin1'),
      key.split('\n')[1] ?? '',
      token,
    ];
    expect(canaries.every((canary) => canary.length >= 20)).toBe(true);
    const statusText = JSON.stringify(await job.status());
    const processes = processesOf(job.paths.job);
    expect(processes.length).toBeGreaterThanOrEqual(5);
    const places = new Map<string, string>([['the status', statusText]]);
    for (const { pid, cmdline, environ } of processes) {
      places.set(`cmdline of ${pid}`, cmdline).set(`environ of ${pid}`, environ);
    }
    expect((await succeeds(job)).generations).toBe(1);
    // The ApplicationMaster records metrics only of a job that runs for some seconds.
    const recorded = readdirSync(job.paths.history).filter((name) => name !== 'metrics-1.jsonl');
    expect(recorded.sort()).toEqual(['events-1.jsonl', 'final.json', 'job.json']);
    expect(readdirSync(job.paths.job).sort()).toEqual(['containers', 'job.json', 'master.pid']);
    for (const folder of [job.paths.job, job.paths.history]) {
      for (const name of execFileSync('find', [folder, '-type', 'f'], { encoding: 'utf8' }).trim().split('\n')) {
        if (!/credentials$|container_tokens$|task-\d+\.json$|am\.json$/.test(name)) {
          places.set(name, readFileSync(name, 'latin1'));
        }
      }
    }
    for (const canary of canaries) {
      expect([...places].filter(([, text]) => text.includes(canary)).map(([place]) => place)).toEqual([]);
    }
    const open = execFileSync('find', [job.paths.job, '-type', 'f', '-perm', '/077'], { encoding: 'utf8' });
    expect(open.split('\n').filter((name) => /credentials|tokens|task-|am\.json/.test(name))).toEqual([]);
  });
});

/** Starts the next attempt after the first attempt has died, as a NodeManager does. */
async function startSecondAttempt(job: Job): Promise<void> {
  const containerId = job.paths.masterContainer(2);
  const [work, logs] = [job.paths.work(containerId), job.paths.logs(containerId)];
  mkdirSync(work, { recursive: true, mode: 0o700 });
  mkdirSync(logs, { recursive: true, mode: 0o700 });
  const first = job.paths.work(job.paths.masterContainer(1));
  for (const name of readdirSync(first)) {
    if (name !== 'credentials') {
      symlinkSync(path.join(first, name), path.join(work, name));
    }
  }
  const log = openSync(path.join(logs, 'tony.log'), 'a');
  const master = spawn(process.execPath, [path.join(CONTAINER_LAYOUT.bundles, 'application-master.mjs')], {
    cwd: work,
    detached: true,
    stdio: ['ignore', log, log],
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      USER: 'alice',
      CONTAINER_ID: containerId,
      HADOOP_TOKEN_FILE_LOCATION: path.join(first, 'credentials'),
      LOG_DIRS: logs,
      NM_HOST: '127.0.0.1',
    },
  });
  closeSync(log);
  await once(master, 'spawn');
}

describe('framework pytorch, with several processes per task', () => {
  const yaml = (command: string) => `processesPerTask: 2
roles: {worker: {instances: 2, restart: {maxRestarts: 1}, command: '${command}'}}`;
  const onGpus = (gpus: number, command: string) =>
    `roles: {worker: {instances: 2, restart: {policy: never}, resources: {gpus: ${gpus}}, command: '${command}'}}`;
  const stdoutOf = (job: Job) =>
    readdirSync(job.paths.containers).flatMap((container) => {
      const file = path.join(job.paths.containers, container, 'logs', 'stdout');
      return existsSync(file) ? readFileSync(file, 'utf8').split('\n').slice(0, -1) : [];
    });

  test('each GPU of a task has a process with its own ranks, whose lines carry its rank, and tasks share no GPU', async () => {
    const job = await startJob({
      framework: 'pytorch',
      yaml: onGpus(2, 'echo $RANK/$WORLD_SIZE $LOCAL_RANK $GROUP_RANK; echo $CUDA_VISIBLE_DEVICES; printf end'),
      path: await pathWithGpus(4),
    });
    expect((await job.final()).state).toBe('succeeded');
    const lines = stdoutOf(job);
    const devices = [0, 1, 2, 3].map((rank) => lines.find((line) => line.startsWith(`[rank ${rank}] `) && line.includes(',')));
    expect(new Set(devices.map((line) => line?.split('] ')[1]))).toEqual(new Set(['0,1', '2,3']));
    const expected = [0, 1, 2, 3].flatMap((rank) => [`[rank ${rank}] ${rank}/4 ${rank % 2} ${Math.floor(rank / 2)}`, `[rank ${rank}] end`]);
    expect(lines.filter((line) => !line.includes(',')).sort()).toEqual(expected.sort());
    await job.quiet();
  });

  test('a task that sees fewer GPUs than it requests fails with the reason', async () => {
    const job = await startJob({ framework: 'pytorch', yaml: onGpus(2, 'true'), path: await pathWithGpus(1) });
    const final = await job.final();
    expect(final.state).toBe('failed');
    expect(final.message).toContain('the task requests 2 GPUs, but its container sees only 1');
    await job.quiet();
  });

  test('the first process that fails ends the others, and all restart together', async () => {
    const program =
      'if [ $RANK = 3 ] && [ $TONY_GENERATION = 1 ]; then echo cause >&2; kill -9 $$; fi; [ $TONY_GENERATION = 2 ] || sleep 1000';
    const job = await startJob({ framework: 'pytorch', yaml: yaml(program) });
    const final = await job.final();
    expect(final).toMatchObject({ state: 'succeeded', generations: 2 });
    const failed = JSON.stringify(final.tasks.find(({ index }) => index === 1));
    expect(failed).toContain('SIGKILL');
    expect(failed).toContain('[rank 3] cause');
    await job.quiet();
  });
});
