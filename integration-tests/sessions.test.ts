import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { readStat } from '../platform/process-stat.ts';
import { COMMAND, environment } from './command.ts';
import { until, useCluster } from './harness.ts';
import { terminalCommand } from './pseudo-terminal.ts';

/** Commands that connect the job's user to a running task. All tests share one job. */

/** Serves HTTP on a free loopback port: returns the body of a request. Ends successfully on SIGUSR2. */
const PROGRAM = `
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
process.on('SIGUSR2', () => process.exit(0));
const server = createServer((request, response) => request.pipe(response));
server.listen(0, '127.0.0.1', () => writeFileSync('port', String(server.address().port)));
writeFileSync('pid', String(process.pid));
`;

const cluster = useCluster();
let folder = '';
let id = '';

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'tony-ts-sessions-'));
  writeFileSync(path.join(folder, 'serve.mjs'), PROGRAM);
  const file = path.join(folder, 'job.yaml');
  writeFileSync(
    file,
    'name: sessions\nframework: none\ncommand: exec node serve.mjs\nenv: {GREETING: hello}\n' +
      'roles: {worker: {instances: 1, resources: {memory: 512m}}}\nmaster: {resources: {memory: 512m}}\n',
  );
  const submitted = await cluster.run(['submit', '--conf', file, '--detach']);
  id = /application_\d+_\d+/.exec(submitted.stdout + submitted.stderr)?.[0] ?? '';
  const listens = () => cluster.run(['exec', id, 'worker:0', '--', 'test', '-s', 'port']);
  await until(async () => (await listens()).exitCode === 0, { describe: 'the program listens' });
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Ran {
  readonly code: number | null;
  readonly stdout: Buffer;
  readonly stderr: string;
}

/** Starts `tony-ts exec` for the job's task. */
function startInTask(words: readonly string[], { user = 'alice', task = 'worker:0' } = {}) {
  return startCommandOf(['exec', id, task, '--', ...words], user);
}

function startCommandOf(words: readonly string[], user = 'alice') {
  const env = environment(cluster.clientEnvironment(user));
  const child = spawn(process.execPath, [COMMAND, ...words], { env, timeout: 60_000 });
  onTestFinished(() => void child.kill('SIGKILL'));
  const stdout: Buffer[] = [];
  const stderr: Buffer[] = [];
  child.stdout.on('data', (bytes: Buffer) => stdout.push(bytes));
  child.stderr.on('data', (bytes: Buffer) => stderr.push(bytes));
  child.stdin.on('error', () => {});
  const ran = new Promise<Ran>((resolve) => {
    child.once('close', (code) => resolve({ code, stdout: Buffer.concat(stdout), stderr: Buffer.concat(stderr).toString() }));
  });
  return { child, ran, output: () => Buffer.concat(stdout).toString() };
}

async function runInTask(
  words: readonly string[],
  { input = Buffer.alloc(0), ...options }: { input?: Buffer; user?: string; task?: string } = {},
) {
  const { child, ran } = startInTask(words, options);
  child.stdin.end(input);
  return await ran;
}

function isAlive(pid: number): boolean {
  return (readStat(pid)?.state ?? 'Z') !== 'Z';
}

describe('tony-ts exec', () => {
  test("runs in the program's folder and environment, and returns output and exit code", async () => {
    const script = 'echo $GREETING; cat serve.mjs | wc -c; env | grep -c -e CONTAINER_TOKENS -e TONY_MASTER; echo problem >&2; exit 7';
    const { code, stdout, stderr } = await runInTask(['sh', '-c', script]);
    expect(stdout.toString().split('\n')).toEqual(['hello', String(PROGRAM.length), '0', '']);
    expect(stderr).toBe('problem\n');
    expect(code).toBe(7);
  });

  test('passes standard input unchanged, and each argument as one word', async () => {
    const input = randomBytes(3_000_000);
    const { code, stdout } = await runInTask(['cat'], { input });
    expect([code, stdout.equals(input)]).toEqual([0, true]);
    expect((await runInTask(['printf', '[%s]', 'a b', '$HOME', '--debug'])).stdout.toString()).toBe('[a b][$HOME][--debug]');
  });

  test('rejects unknown tasks and other users', async () => {
    expect(await runInTask(['true'], { task: 'worker:1' })).toMatchObject({ code: 255, stderr: expect.stringContaining('worker:0') });
    const other = await runInTask(['true'], { user: 'bob' });
    expect(other).toMatchObject({ code: 255, stderr: expect.stringContaining('is a job of alice; you are bob') });
  });

  test('ends the command when the client is killed', async () => {
    const { child, output } = startInTask(['sh', '-c', 'echo $$; sleep 600']);
    const pid = Number(await until(() => /\d+/.exec(output())?.[0], { describe: output }));
    expect(isAlive(pid)).toBe(true);
    child.kill('SIGKILL');
    await until(() => !isAlive(pid), { describe: 'the command has ended' });
  });
});

describe('tony-ts shell', () => {
  test('has a terminal with the size of the user, also after a resize, job control, and an exit code', async () => {
    const terminal = terminalCommand(['shell', id, 'worker:0'], { columns: 97, rows: 31, env: cluster.clientEnvironment() });
    await terminal.sees(/[$#] $/m);
    terminal.type('tty; stty size; echo "role $TONY_ROLE"\r');
    await terminal.sees(/^\/dev\/pts\/\d+\s+31 97\s+role worker$/m);
    terminal.type(`sleep 600 & echo "pid $!"; sh -c 'echo in the foreground; exec sleep 600'\r`);
    const pid = Number((await terminal.sees(/^pid (\d+)$/m))[1]);
    // Printed by the process that shall receive SIGINT.
    await terminal.sees(/^in the foreground$/m);
    terminal.type('\x03');
    terminal.type('echo "status $?"\r');
    await terminal.sees(/^status 130$/m);
    expect(isAlive(pid)).toBe(true);
    terminal.type(`sh -c 'trap "stty size" WINCH; echo waiting; while :; do sleep 0.1; done'\r`);
    await terminal.sees(/^waiting$/m);
    // A user who drags the window's corner resizes it many times.
    for (let columns = 98; columns <= 120; columns++) {
      terminal.resize(columns, 33);
    }
    await terminal.sees(/^33 120$/m);
    terminal.type('\x03');
    terminal.type('echo "size $(stty size)"\r');
    await terminal.sees(/^size 33 120$/m);
    terminal.type('exit 9\r');
    expect(await terminal.exitCode).toBe(9);
    await until(() => !isAlive(pid), { describe: 'background processes have ended' });
  });

  test('rejects other users', async () => {
    const other = await startCommandOf(['shell', id, 'worker:0'], 'bob').ran;
    expect(other).toMatchObject({ code: 255, stderr: expect.stringContaining('is a job of alice; you are bob') });
  });

  test('reads commands from standard input without a terminal', async () => {
    const { ran, child } = startCommandOf(['shell', id, 'worker:0']);
    child.stdin.end('echo $GREETING\nexit 4\n');
    expect(await ran).toMatchObject({ code: 4, stdout: Buffer.from('hello\n') });
  });
});

describe('tony-ts forward', () => {
  test("connects to the task's own ports only, until Ctrl-C", async () => {
    const port = (await runInTask(['cat', 'port'])).stdout.toString();
    const forward = startCommandOf(['forward', id, 'worker:0', `:${port}`]);
    const url = await until(() => /http:\S+/.exec(forward.output())?.[0], { describe: forward.output });
    const bodies = [randomBytes(2_000_000), randomBytes(10), randomBytes(100_000)];
    const answers = await Promise.all(bodies.map(async (body) => await (await fetch(url, { method: 'POST', body })).arrayBuffer()));
    expect(answers.map((answer, at) => Buffer.from(answer).equals(bodies[at] as Buffer))).toEqual([true, true, true]);
    forward.child.kill('SIGINT');
    expect(await forward.ran).toMatchObject({ code: 0, stderr: '' });

    const foreign = createServer().listen(0, '127.0.0.1');
    onTestFinished(() => void foreign.close());
    await once(foreign, 'listening');
    const refused = startCommandOf(['forward', id, 'worker:0', `:${(foreign.address() as AddressInfo).port}`]);
    const dead = await until(() => /http:\S+/.exec(refused.output())?.[0], { describe: refused.output });
    await expect(fetch(dead)).rejects.toThrow();
    refused.child.kill('SIGINT');
    expect(await refused.ran).toMatchObject({ code: 0, stderr: expect.stringContaining(`The task listens on: ${port}`) });
  });
});

describe('the end of the program', () => {
  test('ends its sessions with the reason', async () => {
    const { child, output, ran } = startInTask(['sh', '-c', 'echo $$; sleep 600']);
    const pid = Number(await until(() => /\d+/.exec(output())?.[0], { describe: output }));
    await runInTask(['sh', '-c', 'kill -USR2 $(cat pid)']);
    expect(await ran).toMatchObject({ code: 255, stderr: expect.stringContaining('The program of worker:0 ended with exit code 0.') });
    expect([child.exitCode, isAlive(pid)]).toEqual([255, false]);
    await cluster.ended(id);
    // The ApplicationMaster may respond for a moment after it has reported the result to YARN. It then refuses the session itself.
    const late = await until(
      async () => {
        const ended = await runInTask(['true']);
        return ended.stderr.includes("The task's state is succeeded") ? undefined : ended;
      },
      { describe: 'the ApplicationMaster has exited' },
    );
    expect(late).toMatchObject({ code: 255, stderr: expect.stringContaining('has ended: succeeded') });
  });
});
