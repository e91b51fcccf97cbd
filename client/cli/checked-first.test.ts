import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import type { Command, Option } from './command/command.ts';
import { COMMAND_LINE, runCommandLine } from './command-line.ts';

/*
 * Without a Hadoop configuration, every command that asks the cluster fails with HADOOP_CONF_NOT_FOUND. A mistake in the arguments must therefore
 * end the command with another code.
 */

const home = mkdtempSync(path.join(tmpdir(), 'tony-ts-checked-first-test-'));
const APPLICATION = 'application_1795225023264_0001';
/** Valid words for the positionals of all commands. */
const WORDS: Readonly<Record<string, string>> = { application: APPLICATION, task: 'worker:0', port: '6006', feed: 'clicks', shell: 'bash' };

beforeAll(() => {
  for (const name of ['HADOOP_CONF_DIR', 'HADOOP_HOME', 'TONY_CONF_DIR']) {
    vi.stubEnv(name, undefined);
  }
  vi.stubEnv('HOME', home);
  vi.stubEnv('TONY_LOCAL_DIR', home);
  vi.spyOn(process.stdout, 'write').mockReturnValue(true);
});
afterAll(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
  rmSync(home, { recursive: true });
});

interface Runnable {
  readonly words: readonly string[];
  readonly options: readonly Option[];
}

/** Returns all commands that have options of the cluster, with valid positionals. */
function clusterCommands(command: Command, above: readonly string[] = []): Runnable[] {
  const { positionals, options, commands } = command;
  const words = [...above, ...positionals.filter(({ required }) => required).map(({ name }) => WORDS[name] ?? name)];
  const own = options.some(({ name }) => name === 'resource-manager') ? [{ words, options }] : [];
  return [...own, ...commands.flatMap((child) => clusterCommands(child, [...above, child.name]))];
}

/** A value that the option refuses. Options that accept any text refuse only an empty one. */
function wrongValues({ isFlag, choices, parse }: Option): readonly string[] {
  return isFlag ? ['maybe'] : choices.length > 0 || parse !== null ? ['', '?!'] : [''];
}

const wrong = clusterCommands(COMMAND_LINE).flatMap(({ words, options }) =>
  options.flatMap((option) => wrongValues(option).map((value) => [...words, `--${option.name}=${value}`])),
);

test('the generated cases cover all commands that ask the cluster', () => {
  expect(new Set(wrong.map(([name]) => name)).size).toBeGreaterThan(15);
  expect(wrong.length).toBeGreaterThan(100);
});

test.each(wrong.map((words) => [words.join(' '), words] as const))(
  'the command reports an invalid argument before it opens the cluster: %s',
  async (_, words) => {
    const error = await failureOf(words);
    expect(error).toMatchObject({ code: 'USAGE' });
    expect(error).toMatchObject({ hint: expect.not.stringContaining('COMMAND') });
  },
);

test.each([
  ['exec', APPLICATION, 'worker'],
  ['exec', APPLICATION, 'worker', '--', 'ls'],
  ['exec', APPLICATION, 'worker:0'],
  ['shell', APPLICATION, 'worker'],
  ['logs', APPLICATION, 'worker:x'],
  ['forward', APPLICATION, 'worker', '6006'],
  ['forward', APPLICATION, 'worker:0', '99999'],
  ['feed', APPLICATION, 'a/b'],
  ['kill', APPLICATION, 'nonsense'],
  ['doctor', '--timeout', '5s'],
  ['doctor', '--nodes', '2'],
  ['doctor', '--nodes', '2', '--no-probe'],
  ['doctor', '--timeout', 'abc', '--probe'],
  ['doctor', '--nodes', '0', '--probe'],
  ['feed', APPLICATION, 'clicks', '--skip-received'],
  ['notebook', '--role', 'x'],
  ['submit', '--local', '--staging', '/x'],
  ['submit', '--local', '--resource-manager', 'http://rm:8088'],
  ['submit', '--detach', '--logs', 'all'],
  ['list', '--resource-manager', 'ftp://x'],
  ['list', '--local', '--staging', '/x'],
])('arguments are checked first: %s %s %s %s %s', async (...words) => {
  expect(await failureOf(words)).toMatchObject({ code: 'USAGE' });
});

test.each([[['submit', '--conf', 'nope.yaml']], [['quotas', 'check', 'nope.yaml']], [['notebook', '--conf', 'nope.yaml']]])(
  'the job file is read first: %j',
  async (words) => {
    expect(await failureOf(words)).toMatchObject({ code: 'JOB_UNREADABLE' });
  },
);

test.each([[['submit', '--conf', 'wrong.yaml']], [['quotas', 'check', 'wrong.yaml']], [['notebook', '--conf', 'wrong.yaml']]])(
  'mistakes in the job file are reported although the site file cannot be read: %j',
  async (words) => {
    const file = path.join(home, 'wrong.yaml');
    writeFileSync(file, 'name: x\nrolls: {}\n');
    expect(await failureOf(words.map((word) => (word === 'wrong.yaml' ? file : word)))).toMatchObject({ code: 'JOB_INVALID' });
  },
);

test.each(['json', 'yaml', 'table'])('--version with an output format prints the same as the command version: %s', async (format) => {
  const write = vi.mocked(process.stdout.write);
  write.mockClear();
  await runCommandLine(['--version', '--output', format]);
  const printed = write.mock.calls.map(([text]) => String(text)).join('');
  write.mockClear();
  await runCommandLine(['version', '--output', format]);
  expect(printed).toBe(write.mock.calls.map(([text]) => String(text)).join(''));
  expect(printed).toMatch(
    { json: /"kind":"Version","part":"tony-ts","version":"/, yaml: /version: /, table: /^tony-ts \d/ }[format] ?? /./,
  );
  expect(await failureOf(['--version', '--output', 'nonsense'])).toMatchObject({ code: 'USAGE' });
});

test.each([
  [['list', '--state', 'running', '--no-local', '--staging', '/x']],
  [['list', '--local=false', '--staging', '/x']],
  [['cache', 'prune', '--older-than', '12h']],
  [['logs', APPLICATION, 'master']],
  [['exec', APPLICATION, 'worker:0', '--', 'ls']],
])('valid arguments reach the cluster: %j', async (words) => {
  expect(await failureOf(words)).toMatchObject({ code: 'HADOOP_CONF_NOT_FOUND' });
});

test.each([
  [['list'], '`tony-ts list --local`'],
  [['top'], '`tony-ts top --local`'],
  [['history'], '`tony-ts history --local`'],
  [['cache', 'list'], '`tony-ts cache list --local`'],
  [['submit', '--', 'true'], '`tony-ts submit --local`'],
])('without a cluster, the hint for %j names the same command with --local', async (words, hint) => {
  expect(await failureOf(words)).toMatchObject({ code: 'HADOOP_CONF_NOT_FOUND', hint: expect.stringContaining(hint) });
});

test.each([[['list', '--user', 'bob']], [['status', APPLICATION]]])(
  'without a cluster, the hint for %j does not name --local, which the command would refuse',
  async (words) => {
    expect(await failureOf(words)).toMatchObject({ code: 'HADOOP_CONF_NOT_FOUND', hint: expect.not.stringContaining('local') });
  },
);

test.each([['local_1_0001'], ['nonsense']])(
  'without a cluster, the hint for the unknown job %s lists the jobs on this machine',
  async (job) => {
    expect(await failureOf(['status', job])).toMatchObject({ hint: expect.stringMatching(/^`tony-ts list --local --all` lists/) });
  },
);

test('tony-ts list --local names the command that includes ended local jobs', async () => {
  const write = vi.mocked(process.stdout.write);
  write.mockClear();
  await runCommandLine(['list', '--local']);
  expect(write.mock.calls.map(([text]) => String(text)).join('')).toContain('tony-ts list --local --all');
});

async function failureOf(words: readonly string[]): Promise<unknown> {
  return await runCommandLine(words).then(
    () => 'no error',
    (error: unknown) => error,
  );
}
