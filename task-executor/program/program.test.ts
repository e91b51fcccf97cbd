import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import { expect, it, onTestFinished } from 'vitest';
import { readStat } from '../../platform/process-stat.ts';
import { bindFreePort } from '../bound-port.ts';
import { Guard } from '../processes/guard.ts';
import { ProcessTree } from '../processes/process-tree.ts';
import { type EndedProgram, isFailedLoad, Program } from './program.ts';

const log = pino({ level: 'silent' });

async function start(
  command: string,
  options: { folder?: string; guard?: Guard; graceMs?: number } = {},
): Promise<{ program: Program | EndedProgram; stdout: string }> {
  const logs = mkdtempSync(path.join(tmpdir(), 'tony-program-'));
  const guard = options.guard ?? new Guard(log);
  const port = await bindFreePort('127.0.0.1');
  onTestFinished(() => {
    guard.close();
    rmSync(logs, { recursive: true });
  });
  const stdout = path.join(logs, 'stdout');
  const program = await Program.start({
    command,
    folder: options.folder ?? logs,
    environment: { PATH: process.env.PATH ?? '' },
    stdout,
    stderr: path.join(logs, 'stderr'),
    listener: port.descriptor,
    guard,
    // Longer than any test: the program can exit by itself after a gentle kill.
    graceMs: options.graceMs ?? 60_000,
  });
  port.close();
  return { program, stdout };
}

function isGone(pid: number): boolean {
  const stat = readStat(pid);
  return stat === null || stat.state === 'Z';
}

it('kills the processes that an ended program leaves behind', async () => {
  const { program, stdout } = await start('sleep 1000 & echo $!');
  expect(await (program as Program).ended).toEqual({ code: 0, signal: '', stderrTail: '' });
  const left = Number(readFileSync(stdout, 'utf8'));
  await expect.poll(() => isGone(left)).toBe(true);
});

it('kills processes that have left the process group', async () => {
  const { program, stdout } = await start('setsid sleep 1000 & echo $!; wait');
  await expect.poll(() => existsSync(stdout) && readFileSync(stdout, 'utf8')).toMatch(/\d+\n/);
  const left = Number(readFileSync(stdout, 'utf8'));
  await expect.poll(() => readStat(left)?.session).toBe(left);
  (program as Program).kill(false);
  expect(await (program as Program).ended).toMatchObject({ code: -1, signal: 'SIGKILL' });
  await expect.poll(() => isGone(left)).toBe(true);
});

it.each([
  ['exits', (program: Program) => process.kill(program.pid, 'SIGKILL')],
  ['is killed', (program: Program) => program.kill(false)],
])('kills the other process groups of its session, such as those that `timeout` creates, when it %s', async (_, end) => {
  const { program, stdout } = await start(`timeout 1000 bash -c "trap '' TERM; echo \\$\\$; while :; do sleep 0.05; done"; true`);
  await expect.poll(() => existsSync(stdout) && readFileSync(stdout, 'utf8')).toMatch(/\d+\n/);
  const left = Number(readFileSync(stdout, 'utf8'));
  expect(readStat(left)).toMatchObject({ session: (program as Program).pid });
  expect(readStat(left)?.group).not.toBe((program as Program).pid);
  end(program as Program);
  expect(await (program as Program).ended).toMatchObject({ signal: 'SIGKILL' });
  await expect.poll(() => isGone(left)).toBe(true);
});

it("gives a shell's child the grace period although the shell itself exits immediately", async () => {
  const inner = `trap 'sleep 0.3; echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done`;
  const { program, stdout } = await start(`bash -c "${inner}"; true`);
  await expect.poll(() => existsSync(stdout) && readFileSync(stdout, 'utf8')).toBe('up\n');
  (program as Program).kill(true);
  expect(await (program as Program).ended).toMatchObject({ code: -1, signal: 'SIGTERM' });
  expect(readFileSync(stdout, 'utf8')).toBe('up\nbye\n');
});

it('kills processes that ignore SIGTERM after the grace period', async () => {
  const { program, stdout } = await start(`bash -c "trap '' TERM; echo \\$\\$; while :; do sleep 0.05; done" & wait`, { graceMs: 200 });
  await expect.poll(() => existsSync(stdout) && readFileSync(stdout, 'utf8')).toMatch(/\d+\n/);
  const left = Number(readFileSync(stdout, 'utf8'));
  (program as Program).kill(true);
  await (program as Program).ended;
  await expect.poll(() => isGone(left)).toBe(true);
});

it('resumes a suspended program so that it can end gently', async () => {
  const { program, stdout } = await start("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done");
  await expect.poll(() => existsSync(stdout) && readFileSync(stdout, 'utf8')).toBe('up\n');
  process.kill(-(program as Program).pid, 'SIGSTOP');
  (program as Program).kill(true);
  expect(await (program as Program).ended).toMatchObject({ code: 0 });
  expect(readFileSync(stdout, 'utf8')).toBe('up\nbye\n');
});

it('reports why a program could not be started', async () => {
  const { program } = await start('true', { folder: '/no/such/folder' });
  expect(program).toMatchObject({ code: 125, stderrTail: expect.stringContaining('/no/such/folder'), permanent: false });
});

it('a command that is too long for Linux is a permanent failure, and its description states the reason', async () => {
  const { program } = await start(`: ${'x'.repeat(200_000)}`);
  expect(program).toMatchObject({ code: 125, stderrTail: expect.stringContaining('128 KiB'), permanent: true });
});

it('ends processes that have left the session', async () => {
  const { program, stdout } = await start('setsid bash -c "echo \\$\\$; exec sleep 1000" & until test -s stdout; do sleep 0.05; done');
  await (program as Program).ended;
  // `ended` resolves when SIGKILL has been sent, and the kernel ends the process a moment later.
  await expect.poll(() => isGone(Number(readFileSync(stdout, 'utf8')))).toBe(true);
});

it('recognizes a Python program that ends because it cannot be loaded', () => {
  const ended = (lines: readonly string[], code = 1) => isFailedLoad({ code, signal: '', stderrTail: lines.join('\n') });
  expect(ended(['Traceback (most recent call last):', "ModuleNotFoundError: No module named 'jax'"])).toBe(true);
  expect(
    ended(["[rank 1] ImportError: cannot import name 'a'", "[rank 1] failed with exit code 1; ending the task's other processes"]),
  ).toBe(true);
  expect(ended(['  File "train.py", line 3', '    def f(:', '          ^', 'SyntaxError: invalid syntax'])).toBe(true);
  expect(ended(['  File "train.py", line 3', 'IndentationError: unexpected indent'])).toBe(true);
  const missing = "python3: can't open file '/program/trian.py': [Errno 2] No such file or directory";
  expect(ended([missing], 2)).toBe(true);
  expect(ended([missing.replace('Errno 2', 'Errno 13')], 2)).toBe(false);
  expect(ended(['json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)'])).toBe(false);
  expect(ended(["ModuleNotFoundError: No module named 'jax'", 'ValueError: wrong'])).toBe(false);
  expect(ended(["ModuleNotFoundError: No module named 'jax'"], 0)).toBe(false);
});

it('starts another guard when one has died', async () => {
  const guard = new Guard(log);
  const ownGuards = (): number[] =>
    new ProcessTree(process.pid, 0).members().filter((pid) => {
      const stat = readStat(pid);
      return stat?.parent === process.pid && stat.session === pid && stat.state !== 'Z';
    });
  const before = ownGuards();
  expect(before.length).toBeGreaterThan(0);
  for (const pid of before) {
    process.kill(pid, 'SIGKILL');
  }
  await expect.poll(() => before.every(isGone)).toBe(true);
  const victim = spawn('sleep', ['1000'], { detached: true, stdio: 'ignore' });
  await guard.watch(victim.pid as number);
  // Closes the guard's input, which also happens when the executor exits.
  guard.close();
  await expect.poll(() => isGone(victim.pid as number)).toBe(true);
});
