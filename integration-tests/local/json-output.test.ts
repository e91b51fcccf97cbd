import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { Command } from '../../client/cli/command/command.ts';
import { COMMAND_LINE } from '../../client/cli/command-line.ts';
import { apiSchema } from '../../conf/status/api-schema.ts';
import { runCommand } from '../command.ts';
import { jsonLines, temporaryFolder, until } from '../harness.ts';

const JOB = "name: nap\nframework: none\nruntime: system\nroles: {worker: {command: 'echo awake; sleep 600'}}\n";

/** The arguments of each command that prints JSON. `ID` is a running local job. Without a cluster, some of them print an error. */
const WORDS: Readonly<Record<string, readonly string[]>> = {
  submit: ['--conf', 'job.yaml', '--local', '--dry-run'],
  list: ['--local'],
  attach: ['application_1_0001'],
  status: ['ID'],
  describe: ['ID'],
  top: ['ID'],
  logs: ['ID'],
  events: ['ID'],
  files: ['ID'],
  import: ['tony.xml'],
  doctor: [],
  'history list': ['--local'],
  'history show': ['ID'],
  'history prune': ['--local', '--older-than', '1d'],
  'cache list': ['--local'],
  'cache prune': ['--local', '--older-than', '1d'],
  'quotas show': [],
  'quotas check': ['job.yaml'],
  'quotas usage': [],
  'runtime info': ['--node', '24'],
  explain: ['roles.worker'],
  version: [],
  feed: ['application_1_0001', 'numbers'],
  kill: ['ID'],
};

function commandsWithOutput(command: Command, name = ''): string[] {
  const own = command.options.some((option) => option.name === 'output') ? [name] : [];
  return [...own, ...command.commands.flatMap((each) => commandsWithOutput(each, `${name} ${each.name}`.trim()))];
}

/** Returns what is wrong with an object, or nothing. */
function problemsOf(object: unknown): string[] {
  return (apiSchema.safeParse(object).error?.issues ?? []).map(({ message }) => `${message}: ${JSON.stringify(object).slice(0, 300)}`);
}

test('every command prints objects with apiVersion and kind, and so does every resource of the pages', async () => {
  const folder = await temporaryFolder();
  await writeFile(path.join(folder, 'job.yaml'), JOB);
  const options = { cwd: folder, env: { HOME: folder, HADOOP_CONF_DIR: undefined, HADOOP_HOME: undefined } };
  const detached = await runCommand(['submit', '--conf', 'job.yaml', '--local', '--detach', '--output', 'json'], options);
  const events = jsonLines(detached.stdout);
  const id = String(events.find(({ type }) => type === 'submitted')?.id);
  onTestFinished(async () => void (await runCommand(['kill', id, '--yes'], options)));
  const { urls } = events.find(({ type }) => type === 'pages') as unknown as { urls: { pages: string } };
  const status = async () => jsonLines((await runCommand(['status', id, '--output', 'json'], options)).stdout)[0];
  await until(async () => (await status())?.state === 'running', { describe: status });
  expect(events.flatMap(problemsOf)).toEqual([]);

  const { origin, search } = new URL(urls.pages);
  const token = new URLSearchParams(search).get('token') ?? '';
  for (const resource of ['job', 'events', 'usage', 'scalars', 'configuration', 'log?task=worker:0&file=stdout', 'log', 'nothing']) {
    const answer = await fetch(`${origin}/tony/api/v1/${resource}`, { headers: { authorization: `Bearer ${token}` } });
    expect(problemsOf(await answer.json()), resource).toEqual([]);
  }

  expect(commandsWithOutput(COMMAND_LINE).toSorted()).toEqual(Object.keys(WORDS).toSorted());
  for (const [name, words] of Object.entries(WORDS)) {
    const { stdout } = await runCommand(
      [...name.split(' '), ...words.map((word) => (word === 'ID' ? id : word)), '--output', 'json'],
      options,
    );
    const objects = jsonLines(stdout);
    expect(objects.flatMap(problemsOf), name).toEqual([]);
    expect(name.endsWith('prune') || objects.length > 0, name).toBe(true);
  }
});
