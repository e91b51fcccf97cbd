import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { status } from '@grpc/grpc-js';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { TaskContext } from '../../contract/process/task-context.ts';
import { TASK_FILE, TONY_VARIABLES } from '../../tools/program-contract.ts';
import { until } from '../until.ts';
import { type ContainerOptions, isAlive, newSecrets, startExecutor, type TestExecutor, TestMaster } from './test-master.ts';

const secrets = newSecrets();

async function startMaster(attempt = 1): Promise<TestMaster> {
  const started = await new TestMaster(attempt).listen(secrets);
  onTestFinished(() => started.close());
  return started;
}

function executorOf(options: Omit<ContainerOptions, 'secrets'>): TestExecutor {
  const executor = startExecutor({ secrets, ...options });
  onTestFinished(async () => {
    executor.process.kill('SIGKILL');
    await executor.exit;
    rmSync(path.dirname(executor.folder), { recursive: true, force: true });
  });
  return executor;
}

function gone(pids: readonly number[]): Promise<boolean> {
  return until(() => pids.every((pid) => !isAlive(pid)), { describe: () => `${pids.filter(isAlive)} still alive`, everyMs: 20 });
}

async function pids(executor: TestExecutor, count: number): Promise<number[]> {
  return until(
    () => {
      const lines = readFileSync(path.join(executor.logs, 'stdout'), 'utf8').trim().split('\n').filter(Boolean);
      return lines.length >= count && lines.map(Number);
    },
    { describe: 'pids in stdout', everyMs: 20 },
  );
}

const FAMILY = 'echo $$; sleep 1000 & echo $!; timeout 1001 sleep 1001 & echo $!; wait';

describe('a task executor', () => {
  test('runs the program with its environment, and reports progress, exit code and the last lines of stderr', async () => {
    const master = await startMaster();
    master.welcome = { ...master.welcome, command: 'node program.mjs', env: { FROM_JOB: 'a "b" $c' } };
    const executor = executorOf({
      master,
      environment: { FROM_NODE: 'kept' },
      source: {
        'program.mjs': `
          import { appendFileSync, readFileSync } from 'node:fs';
          import { createServer, connect } from 'node:net';
          import { tmpdir } from 'node:os';
          const task = JSON.parse(readFileSync(process.env.TONY_TASK_FILE, 'utf8'));
          const server = createServer((socket) => socket.end('hello')).listen({ fd: task.listener.fd }, () => {
            const { port } = server.address();
            connect(port, task.listener.host).on('data', (data) => {
              appendFileSync(tmpdir() + '/left-over', '');
              console.log(JSON.stringify({ task, port, output: String(data), env: process.env }));
              appendFileSync(task.reportFile, '{"type":"progress","step":7,"metrics":{"loss":0.5}}\\nnonsense\\n{"type":"checkpoint","step":5}\\n{"type":"permanent-failure"}\\n');
              for (let line = 1; line <= 30; line++) console.error('line ' + line);
              process.exit(3);
            });
          });`,
      },
    });
    const hello = await master.hello();
    expect(hello).toMatchObject({ role: 'worker', index: 1, generation: 0, phase: 'IDLE', host: '127.0.0.1', masterAttempt: 0 });
    expect(hello.port).toBeGreaterThan(0);
    master.start(1, [
      { role: 'worker', index: 0, host: '127.0.0.1', port: 1, rank: 0 },
      { role: 'worker', index: 1, host: '127.0.0.1', port: hello.port, rank: 1 },
      { role: 'evaluator', index: 0, host: '127.0.0.1', port: 2 },
    ]);
    await master.message('started', ({ generation }) => generation === 1);
    const exited = await master.message('exited');
    expect(exited).toMatchObject({ generation: 1, code: 3, signal: '', permanent: true });
    expect(exited.stderrTail.split('\n')).toEqual(Array.from({ length: 20 }, (_, index) => `line ${index + 11}`));
    // The executor reports the last progress before the exit, because the ApplicationMaster uses both to classify the failure.
    const before = master.received.slice(
      0,
      master.received.findIndex(({ exited: end }) => end != null),
    );
    const progress = before.map(({ heartbeat }) => heartbeat?.progress).find((each) => each != null);
    expect(progress).toMatchObject({ step: 7, metrics: { loss: 0.5 }, checkpointStep: 5 });
    expect(progress?.notices).toHaveLength(1);

    const output = JSON.parse(readFileSync(path.join(executor.logs, 'stdout'), 'utf8')) as {
      task: TaskContext;
      port: number;
      output: string;
      env: Record<string, string>;
    };
    expect(output).toMatchObject({ port: hello.port, output: 'hello' });
    expect(output.task).toMatchObject({
      taskRank: 1,
      taskWorldSize: 2,
      generation: 1,
      role: 'worker',
      index: 1,
      data: { digits: 'file:///digits' },
    });
    expect(output.task.members[2]).toEqual({ role: 'evaluator', index: 0, host: '127.0.0.1', port: 2, taskRank: null });
    expect(output.env).toMatchObject({
      FROM_JOB: 'a "b" $c',
      FROM_NODE: 'kept',
      PYTHONUNBUFFERED: '1',
      TONY_TASK_RANK: '1',
      TONY_RANK: '1',
      TONY_LOCAL_RANK: '0',
      TONY_WORLD_SIZE: '2',
      TONY_GENERATION: '1',
      TONY_CHECKPOINT_DIR: output.task.checkpoint.dir,
    });
    expect(readdirSync(path.join(executor.folder, 'tmp'))).toEqual(['left-over']);
    // A socket's path has at most 107 bytes, and Python's multiprocessing and torch append up to 40 bytes to TMPDIR.
    expect(output.env.TMPDIR?.length).toBeLessThan(64);
    expect(Object.keys(output.env)).not.toContain('HADOOP_TOKEN_FILE_LOCATION');
    expect(Object.keys(output.env)).not.toContain('TONY_MASTER');
    expect(statSync(output.env.TONY_TASK_FILE ?? '').mode & 0o777).toBe(0o600);
    // docs/environment.schema.json describes exactly these variables and fields.
    const own = Object.fromEntries(Object.entries(output.env).filter(([name]) => name.startsWith('TONY_')));
    expect(TONY_VARIABLES.strict().parse(own)).toEqual(own);
    expect(TASK_FILE.parse(output.task)).toEqual(output.task);
    master.send({ stop: { reason: 'the job is done', atOnce: false } });
    expect(await executor.exit).toEqual([0, null]);
  });

  test('passes the program its socket through a shell', async () => {
    const master = await startMaster();
    master.welcome = { ...master.welcome, command: 'cd . && (node listen.cjs) && echo done' };
    executorOf({
      master,
      source: {
        'listen.cjs': "require('net').createServer().listen({ fd: 3 }, function () { console.log(this.address().port); this.close(); })",
      },
    });
    const { port } = await master.hello();
    master.start(1);
    expect(await master.message('exited')).toMatchObject({ code: 0 });
    expect(port).toBeGreaterThan(0);
  });

  test('ends all processes of the old program and uses a new port for each new generation', async () => {
    const master = await startMaster();
    master.welcome = { ...master.welcome, command: `${FAMILY}` };
    const executor = executorOf({ master });
    const { port } = await master.hello();
    master.start(1);
    const first = await pids(executor, 3);
    master.send({ prepare: { generation: 2 } });
    const ready = await master.message('ready');
    expect(ready).toMatchObject({ generation: 2 });
    expect(ready.port).not.toBe(port);
    await gone(first);
    master.start(2);
    await master.message('started', ({ generation }) => generation === 2);
    await pids(executor, 6);
    expect(readFileSync(path.join(executor.logs, 'stderr'), 'utf8')).toBe('--- generation 2 ---\n');
    expect(master.received.some(({ exited }) => exited != null)).toBe(false);
    expect(readdirSync(executor.folder).filter((name) => /^(task|report)-/.test(name))).toEqual(['report-2.jsonl', 'task-2.json']);
    master.send({ stop: { reason: 'enough', atOnce: false } });
    expect(await executor.exit).toEqual([0, null]);
  });

  test.each(['running', 'stopped'])('ends a %s program when the executor itself is killed', async (how) => {
    const master = await startMaster();
    master.welcome = { ...master.welcome, command: FAMILY };
    const executor = executorOf({ master });
    await master.hello();
    master.start(1);
    const family = await pids(executor, 3);
    if (how === 'stopped') {
      process.kill(-(family[0] as number), 'SIGSTOP');
    }
    executor.process.kill('SIGKILL');
    await gone(family);
  });

  test('kills its program and exits immediately on SIGTERM from YARN', async () => {
    const master = await startMaster();
    master.welcome = { ...master.welcome, command: `trap 'echo terminated' TERM; ${FAMILY}` };
    const executor = executorOf({ master });
    await master.hello();
    master.start(1);
    const family = await pids(executor, 3);
    executor.process.kill('SIGTERM');
    expect(await executor.exit).toEqual([143, null]);
    await gone(family);
    // YARN sends SIGKILL soon after SIGTERM, so the executor kills the program without a SIGTERM.
    expect(readFileSync(path.join(executor.logs, 'stdout'), 'utf8')).not.toContain('terminated');
  });

  test('lets the program handle SIGTERM when the ApplicationMaster stops the task', async () => {
    const master = await startMaster();
    master.welcome = { ...master.welcome, command: "trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.05; done" };
    const executor = executorOf({ master });
    await master.hello();
    master.start(1);
    const stdout = path.join(executor.logs, 'stdout');
    await until(() => readFileSync(stdout, 'utf8').includes('up'), { describe: 'the program is up', everyMs: 20 });
    master.send({ stop: { reason: 'the job is done', atOnce: false } });
    expect(await executor.exit).toEqual([0, null]);
    expect(readFileSync(stdout, 'utf8')).toBe('up\nsaved\n');
  });

  test('reports the resource usage of the program and whether it is suspended', async () => {
    const master = await startMaster();
    master.welcome = { ...master.welcome, command: 'echo $$; node -e "setInterval(() => {}, 1); for (;;);"' };
    const executor = executorOf({ master });
    await master.hello();
    master.start(1);
    const [pid = 0] = await pids(executor, 1);
    const busy = await master.message('heartbeat', ({ usage }) => (usage?.cpuCores ?? 0) > 0.2);
    expect(busy.usage?.memoryBytes).toBeGreaterThan(1 << 20);
    expect(busy.usage?.stopped).toBe(false);
    process.kill(-pid, 'SIGSTOP');
    await master.message('heartbeat', ({ usage }) => usage?.stopped === true);
  });

  test('keeps the program running when the stream breaks, and reports its state to the next ApplicationMaster', async () => {
    const master = await startMaster();
    master.welcome = {
      ...master.welcome,
      command: 'echo $$; echo \'{"type":"progress","step":4}\' >> "$(dirname $TONY_TASK_FILE)/report-1.jsonl"; sleep 1000',
    };
    const executor = executorOf({ master });
    await master.hello();
    master.start(1);
    const [pid = 0] = await pids(executor, 1);
    await master.message('heartbeat', ({ progress }) => progress?.step === 4);
    const next = await startMaster(2);
    writeFileSync(path.join(executor.staging, 'am.json'), JSON.stringify({ host: '127.0.0.1', port: next.port, attempt: 2 }));
    master.close();
    const hello = await next.hello();
    expect(hello).toMatchObject({ phase: 'RUNNING', generation: 1, masterAttempt: 1, progress: { step: 4 } });
    expect(isAlive(pid)).toBe(true);
    process.kill(pid, 'SIGKILL');
    expect(await next.message('exited')).toMatchObject({ code: -1, signal: 'SIGKILL' });
    next.close();
    const third = await startMaster(3);
    writeFileSync(path.join(executor.staging, 'am.json'), JSON.stringify({ host: '127.0.0.1', port: third.port, attempt: 3 }));
    expect(await third.hello()).toMatchObject({ phase: 'ENDED', generation: 1, masterAttempt: 2, exited: { signal: 'SIGKILL' } });
  });

  test('repeats what a Horovod process has published to the next ApplicationMaster', async () => {
    const master = await startMaster();
    const request = 'PUT /global/0 HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\nContent-Length: 4\\r\\n\\r\\nhere';
    const connection = '/dev/tcp/$HOROVOD_GLOO_RENDEZVOUS_ADDR/$HOROVOD_GLOO_RENDEZVOUS_PORT';
    master.welcome = { ...master.welcome, command: `exec 3<>${connection}; printf '${request}' >&3; read -r line <&3; sleep 1000` };
    const executor = executorOf({ master, framework: 'horovod' });
    await master.hello();
    master.start(1, [{ role: 'worker', index: 1, rank: 0, host: '127.0.0.1', port: 4000 }]);
    const put = ({ requests }: TestMaster) =>
      until(() => requests.map(({ generation, service, body }) => [generation, service, JSON.parse(String(body))])[0], {
        describe: 'a request',
        everyMs: 20,
      });
    const expected = [1, 'rendezvous.put', { key: 'global/0', value: Buffer.from('here').toString('base64') }];
    expect(await put(master)).toEqual(expected);
    const next = await startMaster(2);
    writeFileSync(path.join(executor.staging, 'am.json'), JSON.stringify({ host: '127.0.0.1', port: next.port, attempt: 2 }));
    master.close();
    expect(await put(next)).toEqual(expected);
  });

  test('exits after a rejection, but ignores a rejection from an older ApplicationMaster', async () => {
    const master = await startMaster(2);
    master.welcome = { ...master.welcome, command: FAMILY };
    const executor = executorOf({ master });
    await master.hello();
    master.start(1);
    const family = await pids(executor, 3);
    const old = await startMaster(1);
    old.refuse = { code: status.PERMISSION_DENIED, details: 'no proof' };
    // This rejection comes from attempt 1. Storage may briefly return an outdated address, so executors ignore rejections from older
    // attempts.
    writeFileSync(path.join(executor.staging, 'am.json'), JSON.stringify({ host: '127.0.0.1', port: old.port, attempt: 2 }));
    master.close();
    await old.hello(2);
    expect(family.every(isAlive)).toBe(true);
    const next = await startMaster(3);
    next.refuse = { code: status.PERMISSION_DENIED, details: 'no proof' };
    writeFileSync(path.join(executor.staging, 'am.json'), JSON.stringify({ host: '127.0.0.1', port: next.port, attempt: 3 }));
    expect(await executor.exit).toEqual([1, null]);
    await gone(family);
  });

  test('kills all processes of its program when ordered to stop at once, and then confirms its exit', async () => {
    const master = await startMaster();
    master.welcome = { ...master.welcome, command: `trap '' TERM; ${FAMILY}` };
    const executor = executorOf({ master });
    await master.hello();
    master.start(1);
    const family = await pids(executor, 3);
    master.send({ stop: { reason: 'this container is no longer part of the job', atOnce: true } });
    await master.message('left');
    expect(master.received.map((message) => Object.keys(message)).at(-1)).toContain('left');
    expect(await master.message('exited')).toMatchObject({ code: -1, signal: 'SIGKILL' });
    expect(await executor.exit).toEqual([0, null]);
    await gone(family);
  });

  test('ends its program and exits when its lease expires', async () => {
    const master = await startMaster();
    master.welcome = { ...master.welcome, leaseMs: 3_000, command: FAMILY };
    const executor = executorOf({ master });
    await master.hello();
    master.start(1);
    const family = await pids(executor, 3);
    const closed = performance.now();
    master.close();
    expect(await executor.exit).toEqual([1, null]);
    // The lease starts at the last message from the ApplicationMaster.
    expect(performance.now() - closed).toBeGreaterThan(1_000);
    await gone(family);
  });

  test("sends nothing to an ApplicationMaster without the job's certificate", async () => {
    const stranger = new TestMaster();
    await stranger.listen(newSecrets());
    onTestFinished(() => stranger.close());
    const executor = executorOf({ master: stranger });
    const master = await startMaster();
    writeFileSync(path.join(executor.staging, 'am.json'), JSON.stringify({ host: '127.0.0.1', port: master.port, attempt: 1 }));
    await master.hello();
    expect(stranger.hellos).toEqual([]);
  });

  test.each([
    ['no-such-command', 127],
    ['kill -SEGV $$', -1],
  ])('reports the end of `%s`', async (command, code) => {
    const master = await startMaster();
    master.welcome = { ...master.welcome, command };
    executorOf({ master });
    await master.hello();
    master.start(1);
    const exited = await master.message('exited');
    expect(exited.code).toBe(code);
    if (code === 127) {
      expect(exited.stderrTail).toContain('no-such-command');
    } else {
      expect(exited.signal).toBe('SIGSEGV');
    }
  });
});
