import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { Command } from './command/command.ts';
import { COMMAND_LINE, errorOptions, runCommandLine } from './command-line.ts';

const home = mkdtempSync(path.join(tmpdir(), 'tony-ts-command-line-test-'));

beforeAll(() => void vi.stubEnv('TONY_LOCAL_DIR', home));
afterAll(() => {
  vi.unstubAllEnvs();
  rmSync(home, { recursive: true });
});

test.each([
  [['sumbit'], 'There is no command "sumbit"; did you mean "submit"?'],
  [['bogus', '--conf', 'x'], 'There is no command "bogus".'],
  [['submit', '--cnof', 'x'], 'There is no option --cnof; did you mean --conf?'],
  [['submit', '--conf'], '--conf requires a value.'],
  [['submit', 'job.yaml'], 'Cannot read the job file job.yaml: no such file or directory.'],
  [['submit', 'a.yaml', '--', 'ls'], 'The job file a.yaml and a command after -- cannot be combined'],
  [['ps'], 'There is no command "ps"; did you mean "list"?'],
  [['cancel', 'local_1_0001'], 'There is no command "cancel"; did you mean "kill"?'],
  [['run', 'job.yaml'], 'There is no command "run"; did you mean "submit"?'],
  [['submit', '--output', 'xml'], '--output must be table, json or yaml, not xml.'],
  [['submit', '--no-such'], 'There is no option --no-such'],
  [['status'], 'tony-ts status requires a job ID'],
  [['status', 'job_1'], 'You have no job with the ID or name job_1.'],
  [['logs', 'local_1_0001', '--tail', '0'], '--tail requires a whole number from 1 to 1000000, not 0.'],
  [['logs', 'local_1_0001', '--tail'], '--tail requires a value.'],
  [['logs', 'local_1_0001', 'worker:0'], 'The local job local_1_0001'],
  [['completion'], 'tony-ts completion requires SHELL: bash, zsh, fish.'],
  [['completion', 'tcsh'], 'SHELL must be bash, zsh or fish, not tcsh.'],
  [['version', '--al'], 'There is no option --al; did you mean --all?'],
  [['version', 'all'], 'Unexpected argument "all".'],
  [['history', 'shwo'], 'There is no "tony-ts history shwo"; did you mean "show"?'],
  [['history', 'show'], 'tony-ts history show requires a job ID'],
  [['history', '--user', 'bob', '--limt', '5'], 'There is no option --limt; did you mean --limit?'],
  [['history', '--user', 'bob', 'shwo'], 'There is no "tony-ts history shwo"; did you mean "show"?'],
  [['config', 'explain'], 'There is no command "config"; did you mean "explain"?'],
  [['explain', 'roles.worker.instanses'], 'There is no key roles.worker.instanses; did you mean roles.worker.instances?'],
  [['explain', 'memory'], 'There is no key memory at the top level; did you mean `roles.ROLE.resources.memory`'],
  [['explain', '--codes', 'timeout'], '--codes and timeout cannot be combined'],
  [['feed', 'local_1_0001'], 'tony-ts feed requires FEED'],
  [['attach', 'local_1_0001'], 'The local job local_1_0001'],
  [['notebook', 'local_1_0001'], 'The local job local_1_0001'],
  [['notebook', 'local_1_0001', '--idle', '2h'], '--idle and local_1_0001 cannot be combined.'],
  [['kill', 'local_1_0001'], 'The local job local_1_0001'],
  [['events', 'nonsense'], 'You have no job with the ID or name nonsense.'],
  [['describe', 'nonsense'], 'You have no job with the ID or name nonsense.'],
  [['top', 'nonsense'], 'You have no job with the ID or name nonsense.'],
  [['explain', 'RM_UNREACHABEL'], 'There is no error code RM_UNREACHABEL; did you mean RM_UNREACHABLE?'],
  [['status', 'local_1_0001'], 'The local job local_1_0001'],
  [[], 'A command is missing'],
])('rejects %j with exit code 2', async (words, sentence) => {
  const written = await outputOf(async () => {
    await expect(runCommandLine(words)).rejects.toMatchObject({ exitCode: 2, message: expect.stringContaining(sentence) });
  });
  expect(written).toBe('');
});

test.each([
  ['no option', [], 'table', false],
  ['options before and after the command', ['--debug', 'status', 'x', '--output', 'json'], 'json', true],
  ['values after an equals sign', ['status', '--output=yaml', '--debug=true'], 'yaml', true],
  ['options that are switched off', ['status', '--debug=false', '--no-debug'], 'table', false],
  ['an unknown command', ['statsu', '--output', 'json', '--debug'], 'json', true],
  ['words after --, which belong to the user', ['submit', '--', './train', '--debug', '--output', 'json'], 'table', false],
  ['a value that looks like an option', ['submit', '--set', '--debug', '--output', 'json'], 'json', false],
])('reads how to report an error: %s', (_, words, output, debug) => {
  expect(errorOptions(words)).toEqual({ output, debug });
});

test('help COMMAND shows the help of the command', async () => {
  expect(await outputOf(() => runCommandLine(['help', 'history', 'prune']))).toContain('tony-ts history prune\n');
  expect(await outputOf(() => runCommandLine(['help']))).toContain('tony-ts COMMAND\n');
});

test('explain finds a key by its last parts', async () => {
  expect(await outputOf(() => runCommandLine(['explain', 'gpus']))).toBe(
    await outputOf(() => runCommandLine(['explain', 'roles.ROLE.resources.gpus'])),
  );
});

test('a command line with --help is not checked', async () => {
  expect(await outputOf(() => runCommandLine(['submit', '--no-such', '--help']))).toContain('tony-ts submit');
});

test.each([
  [['top', '--interval', 'x'], 'See tony-ts top --help.'],
  [['history', 'prune', '--older-than', 'x'], 'See tony-ts history prune --help.'],
])('a mistake in %j refers to the help of that command', async (words, hint) => {
  await expect(runCommandLine(words)).rejects.toMatchObject({ code: 'USAGE', hint });
});

describe.each([80, 200])('in %d columns', (columns) => {
  test.each(everyPath(COMMAND_LINE).map((words) => [['tony-ts', ...words].join(' '), words] as const))(
    'the help of %s fits the terminal',
    async (name, words) => {
      const { columns: before } = process.stdout;
      process.stdout.columns = columns;
      const help = await outputOf(() => runCommandLine([...words, '--help'])).finally(() => {
        process.stdout.columns = before;
      });
      expect(help).toContain(name);
      expect(help.split('\n').filter((line) => line.length > columns)).toEqual([]);
    },
  );
});

function everyPath(command: Command): string[][] {
  return [[], ...command.commands.flatMap((child) => everyPath(child).map((words) => [child.name, ...words]))];
}

/** Returns what the action writes to stdout. */
async function outputOf(action: () => Promise<void>): Promise<string> {
  let written = '';
  const write = vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    written += String(text);
    return true;
  });
  try {
    await action();
  } finally {
    write.mockRestore();
  }
  return written;
}
