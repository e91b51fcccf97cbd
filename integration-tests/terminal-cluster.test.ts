import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { jsonLines, noneLeft, temporaryFolder, until, useCluster } from './harness.ts';
import { type PseudoTerminal, terminalCommand } from './pseudo-terminal.ts';

const cluster = useCluster();
/** Time limit in ms for many commands and consecutive jobs on a slow machine. */
const ID = /application_\d+_\d+/;

/** Writes a job of two workers, each with `gpus` GPUs. The job's variable `$GATE` contains the path of a file that does not exist yet. */
async function job(command: string, gpus = 0): Promise<{ file: string; gate: string }> {
  const folder = await temporaryFolder();
  const gate = path.join(folder, 'gate');
  const lines = [
    'name: shown',
    'framework: none',
    'runtime: system',
    `env: {GATE: ${gate}}`,
    `command: ${JSON.stringify(command)}`,
    `roles: {worker: {instances: 2, kind: gang, resources: {memory: 512m, gpus: ${gpus}}}}`,
    'master: {resources: {memory: 512m}}',
  ];
  await writeFile(path.join(folder, 'job.yaml'), `${lines.join('\n')}\n`);
  return { file: path.join(folder, 'job.yaml'), gate };
}

const UNTIL_GATE = 'while [ ! -e $GATE ]; do sleep 0.1; done';

const show = (words: readonly string[], columns: number): PseudoTerminal =>
  terminalCommand(words, { columns, env: cluster.clientEnvironment() });

/** Returns the lines that the terminal has wrapped, except lines that are a single URL. */
function broken(terminal: PseudoTerminal): string[] {
  return terminal.brokenLines.filter((line) => !line.split(' ').some((word) => word.length >= terminal.columns - 24));
}

test('Ctrl-C detaches from a job or kills it, as the user chooses, and every table fits the terminal', async () => {
  const { file } = await job(UNTIL_GATE);
  const terminal = show(['submit', '--conf', file], 80);
  await terminal.sees(/worker:1\s+running/);
  const id = ID.exec(terminal.text())?.[0] ?? '';
  terminal.type('\x03');
  await terminal.sees(/^Detach \(d\), kill the job \(k\), or continue \(c\)\? ?$/m);
  terminal.type('d');
  expect(await terminal.exitCode).toBe(0);
  expect(terminal.text()).toContain(`detached; the job continues. See tony-ts status ${id}`);
  expect(terminal.cursorShown).toBe(true);
  expect(broken(terminal)).toEqual([]);
  expect(await cluster.application(id)).toMatchObject({ state: 'RUNNING' });

  for (const columns of [80, 200]) {
    const commands = [
      ['list'],
      ['list', '--all-users', '--all'],
      ['status', id],
      ['quotas'],
      ['quotas', 'usage'],
      ['doctor'],
      ['events', id],
      ['version', '--all'],
      ['history'],
    ];
    for (const words of commands) {
      const shown = show(words, columns);
      expect({ words, exitCode: await shown.exitCode, broken: broken(shown) }).toEqual({ words, exitCode: 0, broken: [] });
      if (words[0] === 'version') {
        expect(shown.text()).toMatch(/^Hadoop +3\.\d/m);
      }
    }
  }

  const attached = show(['attach', id], 80);
  await attached.sees(/worker:1\s+running/);
  attached.type('\x03');
  await attached.sees(/kill the job \(k\)/);
  attached.type('k');
  expect(await attached.exitCode).toBe(1);
  expect(attached.text()).toContain(`${id} killed`);
  await noneLeft(cluster, id);
});

test('logs -f waits for the job to start, and continues after an outage of the ResourceManager and a restart of a worker', async () => {
  const other = await job(UNTIL_GATE, 4);
  const otherId = ID.exec((await cluster.run(['submit', '--conf', other.file, '--detach'])).stdout)?.[0] ?? '';
  const others = () => cluster.application(otherId);
  await until(async () => (await others()).runningContainers === 3, { describe: others });

  const { file, gate } = await job(`echo "begun $TONY_GENERATION"; ${UNTIL_GATE}; echo through`, 1);
  const { stdout } = await cluster.run(['submit', '--conf', file, '--detach']);
  const id = ID.exec(stdout)?.[0] ?? '';
  const logs = cluster.startCommand(['logs', id, '-f', '--output', 'json']);
  await logs.output(new RegExp(`${id} has not started yet: \\w+|Waiting for containers`));
  await writeFile(other.gate, '');
  await logs.output(/"task":"worker:1".*"text":"begun 1"/);
  await cluster.ended(otherId);

  await cluster.kill('resourcemanager');
  await logs.output(/The job continues to run\. Retrying\./);
  await cluster.heal();
  await logs.output(/The cluster is reachable again\./);

  const executor = await until(
    async () => (await cluster.containers(id)).find(({ command }) => /^\S*node .*task-executor\.mjs/.test(command)),
    { describe: () => cluster.containers(id) },
  );
  process.kill(executor.pid, 'SIGKILL');
  await logs.output(/worker:\d was restarted in container_/);
  await logs.output(/"text":"begun 2"/);
  await writeFile(gate, '');
  const result = await logs.result;
  expect(result.exitCode).toBe(0);
  const lines = jsonLines(result.stdout);
  for (const task of ['worker:0', 'worker:1']) {
    // The order of lines from different files is not defined.
    const texts = lines.filter((line) => line.task === task && line.file === 'stdout').map(({ text }) => text);
    expect(texts.filter((text) => text === 'begun 1')).toHaveLength(1);
    expect(texts.at(-1)).toBe('through');
  }
  expect(lines[0]).toMatchObject({
    task: expect.any(String),
    containerId: expect.stringMatching(/^container_/),
    file: 'stdout',
    text: 'begun 1',
  });
  expect(lines.map(({ text }) => text)).toContain('begun 2');

  const later = await until(
    async () => {
      const { exitCode, stdout: text } = await cluster.run(['logs', id, '--tail', '1']);
      return exitCode === 0 && text.match(/through/g)?.length === 2 && text;
    },
    { describe: 'the collected logs' },
  );
  expect(later).toMatch(/^worker:0 \| through$/m);
});

test("completion offers the user's jobs and tasks, and ended jobs where a command accepts them", async () => {
  const { file, gate } = await job(UNTIL_GATE);
  const { stdout } = await cluster.run(['submit', '--conf', file, '--detach']);
  const id = ID.exec(stdout)?.[0] ?? '';
  // The user of the tests may have local jobs, which the completion would offer too.
  const env = { HOME: await temporaryFolder(), TONY_COMPLETION_TIMEOUT: '1m' };
  const offered = async (...words: string[]): Promise<string[]> =>
    (await cluster.run(['completion', '--words', ...words], { env })).stdout.trimEnd().split('\n').slice(1);
  // The cluster lists a job, and a job its tasks, only some time after the submission.
  const offers = (words: readonly string[], lines: unknown): Promise<unknown> =>
    until(
      async () => {
        expect(await offered(...words)).toEqual(lines);
        return true;
      },
      { describe: async () => ({ words, offered: await offered(...words) }) },
    );
  try {
    await offers(['kill', ''], [`${id}\tshown, running`]);
    await offers(
      ['logs', id, ''],
      ['worker\tall 2 tasks of the role', 'worker:0\trunning', 'worker:1\trunning', 'master\tthe ApplicationMaster'],
    );
  } finally {
    await writeFile(gate, '');
    await cluster.ended(id);
  }
  expect(await offered('kill', '')).toEqual([]);
  await offers(['status', ''], expect.arrayContaining([`${id}\tshown, succeeded`]));
  await offers(['doctor', '--queue', ''], expect.arrayContaining(['default']));
});
