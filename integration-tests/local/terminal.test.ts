import { readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import type { JobStatus } from '../../conf/status/status.ts';
import { type CommandOptions, runCommand } from '../command.ts';
import { temporaryFolder, until } from '../harness.ts';
import { type PseudoTerminal, terminalCommand } from '../pseudo-terminal.ts';

/** Terminal output of a local job, in a narrow and in a wide terminal. */

// biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences start with one
const COLOUR = /\x1b\[[\d;]*m/;

interface Place {
  readonly env: NonNullable<CommandOptions['env']>;
  readonly file: string;
  readonly gate: string;
}

/** Writes a job file in a separate home folder. The job's variable `$GATE` contains the path of a file that does not exist yet. */
async function job(command: string, roles = '{worker: {instances: 2, restart: {policy: never}}, evaluator: {}}'): Promise<Place> {
  const folder = await temporaryFolder();
  const gate = path.join(folder, 'gate');
  const lines = [
    'name: hello',
    'framework: none',
    'runtime: system',
    `env: {GATE: ${gate}}`,
    `command: ${JSON.stringify(command)}`,
    `roles: ${roles}`,
  ];
  const file = path.join(folder, 'job.yaml');
  await writeFile(file, `${lines.join('\n')}\n`);
  return { env: { HOME: folder, HADOOP_CONF_DIR: undefined, HADOOP_HOME: undefined }, file, gate };
}

const submit = ({ file }: Place): string[] => ['submit', '--local', '--conf', file];
const UNTIL_GATE = 'while [ ! -e $GATE ]; do sleep 0.1; done';

/** Returns the lines that the terminal has wrapped. Excludes single URLs, which stay on one line so that users can copy them. */
function broken(terminal: PseudoTerminal): string[] {
  return terminal.brokenLines.filter((line) => !line.split(' ').some((word) => word.length >= terminal.columns - 12));
}

async function ended(terminal: PseudoTerminal, exitCode: number): Promise<string> {
  expect({ exitCode: await terminal.exitCode, text: terminal.text() }).toEqual({ exitCode, text: expect.any(String) });
  expect(broken(terminal)).toEqual([]);
  expect(terminal.cursorShown).toBe(true);
  return terminal.text();
}

describe.each([80, 200])('in %d columns', (columns) => {
  test('submit follows a job to its end, and leaves the last table and the result on the screen', async () => {
    const place = await job(`echo "working on something that has a name which is rather long"; ${UNTIL_GATE}`);
    const terminal = terminalCommand(submit(place), { columns, env: place.env });
    await terminal.sees(/worker:1\s+running/);
    expect(terminal.cursorShown).toBe(false);
    await writeFile(place.gate, '');
    const text = await ended(terminal, 0);
    expect(text.match(/^TASK\s+STATE/gm)).toHaveLength(1);
    expect(text).toMatch(
      /^hello {2}succeeded .*\nTASK .*\nworker:0 +succeeded .*\nworker:1 +succeeded .*\nevaluator:0 .*\nlocal_\d+_\d+ succeeded$/m,
    );
  });

  test('submit and the other commands show the first failing task of a failed job and its last lines', async () => {
    const why = 'the learning rate is far too large for this net, and so the loss has become infinite after three steps';
    const place = await job(`if [ $TONY_INDEX = 1 ]; then echo "${why}" >&2; exit 3; fi; sleep 60`);
    const terminal = terminalCommand(submit(place), { columns, env: place.env });
    const text = await ended(terminal, 1);
    const words = (lines: string): string => lines.replace(/\s+/g, ' ');
    expect(text).toMatch(/^worker:1 failed/m);
    expect(text).toMatch(/^worker:1 +failed 3/m);
    const end = text.slice(text.search(/^local_\d+_\d+ failed$/m));
    expect(words(end)).toMatch(/^local_\d+_\d+ failed worker:1 .*exited with code 3/);
    expect(words(end)).toContain(why);
    const id = /local_\d+_\d+/.exec(text)?.[0] ?? '';
    for (const command of ['status', 'logs', 'events', 'history show', 'attach']) {
      const shown = terminalCommand([...command.split(' '), id], { columns, env: place.env });
      const code = command === 'attach' ? 1 : 0;
      expect(words(await ended(shown, code)).replaceAll(/ \| /g, ' ')).toContain(
        columns === 200 ? why : 'the learning rate is far too large',
      );
    }
    if (columns > 80) {
      return;
    }
    for (const words of [
      ['history', 'list', '--local'],
      ['status', id, '--output', 'yaml'],
      ['describe', id],
      ['kill', id],
      ['completion', 'bash'],
      ['explain', 'RM_UNREACHABLE'],
      ['explain', '--codes'],
      ['explain', 'roles'],
      ['version', '--all'],
    ]) {
      const shown = terminalCommand(words, { columns, env: place.env });
      expect({ words, exitCode: await shown.exitCode }).toEqual({ words, exitCode: 0 });
      // JSON values, scripts and the job's own output are never wrapped.
      if (!/yaml|completion|describe/.test(words.join(' '))) {
        expect({ words, broken: broken(shown) }).toEqual({ words, broken: [] });
      }
    }
    const doctor = terminalCommand(['doctor'], { columns, env: place.env });
    expect(await ended(doctor, 4)).toContain('HADOOP_CONF_DIR');
    const list = terminalCommand(['list'], { columns, env: place.env });
    expect(await ended(list, 2)).toMatch(/^error: HADOOP_CONF_DIR is not set.*\nhint: /m);
  });
});

test('init asks questions, and Ctrl-C at a question writes no files', async () => {
  const folder = await temporaryFolder();
  const terminal = terminalCommand(['init', folder], { columns: 80 });
  await terminal.sees(/Framework \(.*\) \[tfjs\]: /);
  terminal.type('\n');
  await terminal.sees(/Name of the job \[.*\]: /);
  terminal.type('circle\n');
  await terminal.sees(/Workers \[2\]: /);
  terminal.type('\x03');
  expect(await ended(terminal, 130)).toContain('Interrupted. No files were written.');
  expect(await readdir(folder)).toEqual([]);
  expect(await ended(terminalCommand(['init', '--yes'], { columns: 80, cwd: folder }), 0)).toContain('tony-ts submit --local --conf');
  expect((await readdir(folder)).sort()).toEqual(['.tonyignore', 'job.yaml', 'train.ts']);
});

test('logs of several tasks differ in colour and are aligned', async () => {
  const place = await job(
    `for i in 1 2 3; do echo "step $i of many, with a loss that is smaller than that of the step before it, and so on"; done; ${UNTIL_GATE}`,
    '{worker: {instances: 11}}',
  );
  const { stdout } = await runCommand([...submit(place), '--detach'], { env: place.env });
  const id = /local_\d+_\d+/.exec(stdout)?.[0] ?? '';
  // A message about a job that has not started has no task prefix.
  const states = async (): Promise<string[]> => {
    const { stdout: json } = await runCommand(['status', id, '--output', 'json'], { env: place.env });
    return (JSON.parse(json) as JobStatus).tasks.map(({ state }) => state);
  };
  const running = async () => (await states()).filter((state) => state === 'running').length === 11;
  await until(running, { describe: states });
  const terminal = terminalCommand(['logs', id, '-f'], { columns: 80, env: place.env });
  await terminal.sees(/worker:10 \| step 3/);
  await writeFile(place.gate, '');
  const text = await ended(terminal, 0);
  expect(text).toMatch(/^worker:0 {2}\| step 1 of many/m);
  expect(new Set(text.split('\n').map((line) => line.indexOf('|')))).toEqual(new Set(['worker:10 '.length]));
  // biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences start with one
  const colours = new Set([...terminal.raw.matchAll(/(\x1b\[3\dm)worker:\d+/g)].map(([, colour]) => colour));
  expect(colours.size).toBeGreaterThan(3);
});

test('Ctrl-C asks whether to continue or to kill the job', async () => {
  const place = await job(UNTIL_GATE);
  // The lines of --verbose do not damage the table.
  const terminal = terminalCommand([...submit(place), '--verbose'], { columns: 80, env: place.env });
  await terminal.sees(/worker:1\s+running/);
  terminal.type('\x03');
  await terminal.sees(/^Kill the job \(k\), or continue \(c\)\? ?$/m);
  terminal.type('c');
  await terminal.sees(/evaluator:0 .*\n*$/);
  terminal.type('\x03');
  await terminal.sees(/^Kill the job \(k\)/m);
  terminal.type('x');
  terminal.type('k');
  const text = await ended(terminal, 1);
  expect(text).toMatch(/local_\d+_\d+ killed\nThe user killed the job\.\nlogs: tony-ts logs local_\d+_\d+$/);
  expect(text).not.toContain('or continue (c)?');
  expect(text).toMatch(/^GET http:\S+\/tony\/api\/v1\/job: HTTP 200/m);
  expect(text.match(/^TASK /gm)).toHaveLength(1);
  const id = /local_\d+_\d+/.exec(text)?.[0] ?? '';
  expect((await runCommand(['status', id], { env: place.env })).stdout).toContain(`${id} killed`);
});

test('Ctrl-C ends logs -f, but not the job', async () => {
  const place = await job(`echo begun; ${UNTIL_GATE}`, '{worker: {}}');
  const { stdout } = await runCommand([...submit(place), '--detach'], { env: place.env });
  const id = /local_\d+_\d+/.exec(stdout)?.[0] ?? '';
  const terminal = terminalCommand(['logs', id, 'worker:0', '-f'], { columns: 80, env: place.env });
  await terminal.sees(/^begun$/m);
  terminal.type('\x03');
  expect(await ended(terminal, 130)).not.toMatch(/error|abort/i);
  expect((await runCommand(['status', id, '--output', 'json'], { env: place.env })).stdout).toContain('"state":"running"');
  await writeFile(place.gate, '');
  expect(await runCommand(['attach', id], { env: place.env })).toMatchObject({ exitCode: 0 });
});

test('NO_COLOR disables colours, and a dumb terminal gets plain lines', async () => {
  const place = await job('echo hello', '{worker: {}}');
  const coloured = terminalCommand(submit(place), { columns: 80, env: place.env });
  await ended(coloured, 0);
  expect(coloured.raw).toMatch(COLOUR);
  const plain = terminalCommand(submit(place), { columns: 80, env: { ...place.env, NO_COLOR: '1' } });
  await ended(plain, 0);
  expect(plain.raw).not.toMatch(COLOUR);
  const dumb = terminalCommand(submit(place), { columns: 80, env: { ...place.env, TERM: 'dumb' } });
  await ended(dumb, 0);
  expect(dumb.raw).not.toContain('\x1b');
  expect(dumb.text()).toMatch(/^worker:0 succeeded/m);
  const id = /local_\d+_\d+/.exec(dumb.text())?.[0] ?? '';
  for (const command of ['logs', 'status', 'events', 'describe']) {
    const shown = terminalCommand([command, id], { columns: 80, env: { ...place.env, TERM: 'dumb' } });
    await shown.exitCode;
    expect(shown.raw).not.toContain('\x1b');
  }
});
