import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import type { JobStatus } from '../../conf/status/status.ts';
import { jsonLines, ROOT, runCommand } from '../command.ts';
import { temporaryFolder } from '../harness.ts';

/**
 * Runs the job of docs/role-order.md, and jobs that fail because of its keys, on this machine. yarn-bad-days.test.ts and tony-e2e.test.ts run
 * such jobs on a cluster.
 */

const FOREVER = 'exec sleep 1000';
/** Fails once with an exit code that is worth a repetition. */
const PREPARE = 'if [ ! -e $OUT/tried ]; then touch $OUT/tried; exit 75; fi; touch $OUT/prepared';
const EXAMPLE = /```yaml\n(name: staged\n.*?)```/s.exec(readFileSync(path.join(ROOT, 'docs', 'role-order.md'), 'utf8'))?.[1] ?? '';

interface Result {
  readonly id: string;
  readonly message: string;
  readonly tasks: JobStatus['tasks'];
}

interface Outcome extends Omit<Result, 'id'> {
  readonly exitCode: number | null;
  readonly events: readonly string[];
  readonly out: string;
}

async function runJob(yaml: string, scripts: Readonly<Record<string, string>>, sets: readonly string[] = []): Promise<Outcome> {
  const folder = await temporaryFolder();
  const out = path.join(folder, 'out');
  mkdirSync(out);
  for (const [name, script] of Object.entries(scripts)) {
    writeFileSync(path.join(folder, name), `#!/bin/sh\n${script}\n`);
    chmodSync(path.join(folder, name), 0o755);
  }
  const file = path.join(folder, 'job.yaml');
  writeFileSync(file, `${yaml}\nruntime: system\nsource: .\nenv: {OUT: ${out}}\n`);
  const set = sets.flatMap((each) => ['--set', each]);
  const env = { TONY_LOCAL_DIR: path.join(folder, 'local'), HADOOP_CONF_DIR: undefined };
  const { stdout, exitCode } = await runCommand(['submit', '--local', '--conf', file, '--output', 'json', ...set], { env });
  const { id, message, tasks } = jsonLines(stdout).at(-1) as unknown as Result;
  const events = (await runCommand(['events', id], { env })).stdout.split('\n');
  return { exitCode, message, tasks, events, out };
}

function statesOf(tasks: JobStatus['tasks']): Record<string, string> {
  return Object.fromEntries(tasks.map(({ role, index, state }) => [`${role}:${index}`, state]));
}

/** Checks that the events contain these patterns in this order. */
function expectInOrder(events: readonly string[], patterns: readonly RegExp[]): void {
  const at = patterns.map((pattern) => events.findIndex((line) => pattern.test(line)));
  expect(at.map((line, which) => [patterns[which], line >= 0 && line >= Math.max(...at.slice(0, which))])).toEqual(
    patterns.map((pattern) => [pattern, true]),
  );
}

test('the stages of the example run in order, the preparation is repeated, and the database is stopped at the end', async () => {
  const { exitCode, tasks, events } = await runJob(EXAMPLE, {
    'serve-features.sh': FOREVER,
    'prepare.sh': PREPARE,
    'train.sh': 'test -e $OUT/prepared && touch $OUT/trained-$TONY_INDEX',
    'evaluate.sh': 'while [ ! -e $OUT/trained-0 ] || [ ! -e $OUT/trained-1 ]; do sleep 0.1; done',
  });
  expect({ exitCode, states: statesOf(tasks) }).toEqual({
    exitCode: 0,
    states: {
      'database:0': 'stopped',
      'prepare:0': 'succeeded',
      'worker:0': 'succeeded',
      'worker:1': 'succeeded',
      'evaluator:0': 'succeeded',
    },
  });
  expectInOrder(events, [
    /prepare +role-waits/,
    /prepare +role-released/,
    /prepare:0 .*exited with code 75/,
    /prepare:0 +program-ended +exited with code 0/,
    /worker +role-released/,
    /worker:0 +program-ended/,
    /database:0 +task-stopped/,
  ]);
});

test('the job fails with the reason if the evaluator of the example exceeds its time after training', async () => {
  const scripts = { 'serve-features.sh': FOREVER, 'prepare.sh': 'exit 0', 'train.sh': 'exit 0', 'evaluate.sh': FOREVER };
  const { exitCode, message, tasks } = await runJob(EXAMPLE, scripts, ['roles.evaluator.endAfter.timeout=2s']);
  expect(exitCode).toBe(1);
  expect(message).toContain('evaluator:0 had not ended 2 s after the end of role worker. Raise roles.evaluator.endAfter.timeout');
  expect(statesOf(tasks)).toMatchObject({ 'worker:0': 'succeeded', 'worker:1': 'succeeded' });
});

test('the job fails with the reason after an exit code that is not in onExitCodes, and the next stage does not start', async () => {
  const { exitCode, message, tasks, out } = await runJob(EXAMPLE, {
    'serve-features.sh': FOREVER,
    'prepare.sh': `${PREPARE}; exit 3`,
    'train.sh': 'touch $OUT/trained',
    'evaluate.sh': FOREVER,
  });
  expect(exitCode).toBe(1);
  expect(message).toContain('prepare:0 failed, and its role restarts only after exit code 75 (restart.onExitCodes)');
  expect(message).toContain('has not started, because it waits until prepare has succeeded');
  expect(tasks.find(({ role }) => role === 'prepare')).toMatchObject({ state: 'failed', failures: 2 });
  expect(existsSync(path.join(out, 'trained'))).toBe(false);
});

test('the job fails with the reason when a task has reached its time limit more often than it may restart', async () => {
  const yaml =
    'name: limited\nframework: none\nroles:\n' +
    `  worker: {command: ${FOREVER}, timeout: 2s, restart: {maxRestarts: 1}, resources: {memory: 512m}}`;
  const { exitCode, message, tasks } = await runJob(yaml, {});
  expect(exitCode).toBe(1);
  expect(message).toMatch(/worker:0 .*only 1 restart is allowed.*ran longer than its time limit of 2 s \(roles\.worker\.timeout\)/s);
  expect(tasks).toMatchObject([{ state: 'failed', failures: 2, failure: { cause: { kind: 'time-limit' } } }]);
});
