import { spawnSync } from 'node:child_process';
import { constants } from 'node:os';
import { expect, test } from 'vitest';
import { exitCodeOf, isSignalled, signalOf } from './program-signal.ts';

const exited = (code: number) => ({ code, signal: null });

test('a signal of the program and the exit code of a shell whose command it killed mean the same, for each signal of this system', () => {
  // SIGIOT and SIGPOLL are second names. SIGUNUSED does not exist on all systems.
  const numbers = Object.entries(constants.signals).filter(([name]) => !['SIGIOT', 'SIGPOLL', 'SIGUNUSED'].includes(name));
  expect(numbers.length).toBeGreaterThan(28);
  for (const [signal, number] of numbers) {
    expect([signalOf({ code: null, signal }), signalOf(exited(128 + number))], signal).toEqual([signal, signal]);
    expect([exitCodeOf({ code: null, signal }), exitCodeOf(exited(128 + number))], signal).toEqual([128 + number, 128 + number]);
    expect([isSignalled({ code: null, signal }), isSignalled(exited(128 + number))], signal).toEqual([true, true]);
  }
});

test.each(['SIGKILL', 'SIGSEGV', 'SIGTERM', 'SIGABRT'])('names %s after the exit of a real shell whose child it killed', (signal) => {
  const { status } = spawnSync('sh', ['-c', `sh -c 'kill -${signal.slice(3)} $$'; exit $?`]);
  expect(signalOf({ code: status, signal: null })).toBe(signal);
});

test('other exit codes are no signals, and real-time and unknown signals have no name', () => {
  for (const code of [0, 1, 9, 125, 126, 127, 128, 193, 255]) {
    expect([isSignalled(exited(code)), signalOf(exited(code)), exitCodeOf(exited(code))], String(code)).toEqual([false, null, code]);
  }
  expect([isSignalled(exited(162)), signalOf(exited(162))]).toEqual([true, null]);
  const unknown = { code: null, signal: null };
  expect([isSignalled(unknown), signalOf(unknown), exitCodeOf(unknown)]).toEqual([true, null, null]);
});
