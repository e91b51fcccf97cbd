import { spawnSync } from 'node:child_process';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { ERROR_CODES, EXIT_CODES } from '../../platform/errors.ts';
import { COMMAND, runCommand } from '../command.ts';
import { jsonLines, temporaryFolder } from '../harness.ts';

/** Usage errors and missing prerequisites, which the command reports without contacting a cluster. */

const JOB = 'name: hello\nframework: none\nruntime: system\ncommand: echo hello\nroles: {worker: {}}\n';

async function jobFile(text: string = JOB): Promise<{ folder: string; file: string }> {
  const folder = await temporaryFolder();
  const file = path.join(folder, 'job.yaml');
  await writeFile(file, text);
  return { folder, file };
}

describe('the command line', () => {
  test('--help lists the commands', async () => {
    const { exitCode, stdout, stderr } = await runCommand(['--help']);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    for (const command of ['submit', 'list', 'logs', 'doctor', 'import']) {
      expect(stdout).toContain(`tony-ts ${command} `);
    }
    for (const code of Object.keys(EXIT_CODES).map(
      (code) => `${code} ${EXIT_CODES[Number(code) as keyof typeof EXIT_CODES].split(':')[0]}`,
    )) {
      expect(stdout.replace(/\s+/g, ' ')).toContain(code);
    }
  });

  test("the help of a command lists the command's own options first", async () => {
    const { stdout } = await runCommand(['logs', '--help']);
    expect(stdout.indexOf('--tail')).toBeGreaterThan(0);
    expect(stdout.indexOf('--tail')).toBeLessThan(stdout.indexOf('--debug'));
  });

  // client/cli/command-line.test.ts contains the messages of all other usage errors.
  test.each([
    [['sumbit'], 'There is no command "sumbit"; did you mean "submit"?'],
    [['submit', 'job.yaml'], 'Cannot read the job file job.yaml: no such file or directory.\nhint: Check the path of the job file.'],
    [['status', 'local_1_0001'], 'The local job local_1_0001'],
  ])('rejects %j with exit code 2 and without a stack trace', async (words, sentence) => {
    const { exitCode, stdout, stderr } = await runCommand(words, { env: { HOME: await temporaryFolder() } });
    expect(stderr).toContain(`error: ${sentence}`);
    expect(stderr).not.toMatch(/^\s+at /m);
    expect(stdout).toBe('');
    expect(exitCode).toBe(2);
  });

  test('explain describes an error code, and lists all codes', async () => {
    expect(await runCommand(['explain', 'rm_unreachable'])).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(
        /^RM_UNREACHABLE\nNo ResourceManager answers.*\nExit code 3: the cluster is unreachable or busy: try again later\nWhat to do: Check that the ResourceManager is running/,
      ),
    });
    const { stdout } = await runCommand(['explain', '--codes']);
    expect(stdout).toMatch(/^JOB_INVALID +2 {2}job\.yaml or a value passed with --set is /m);
  });

  const LONG_OUTPUTS = [['explain'], ['explain', '--codes'], ['explain', '--codes', '--output', 'json'], ['submit', '--help']];
  test.each([
    [
      'a full disk',
      'exec "$0" "$@" > /dev/full',
      'no space left on device',
      [...LONG_OUTPUTS, ['submit', '--local', '--conf', 'job.yaml']],
    ],
    // The disk, here the limit of 1,024 bytes for a file, accepts only the first part of a write.
    ['a disk that fills up', 'ulimit -f 2; exec "$0" "$@" > output', 'file too large', LONG_OUTPUTS],
  ])('commands fail if %s does not accept their output', async (_, script, reason, commands) => {
    const { folder } = await jobFile();
    const env = { ...process.env, HOME: folder };
    for (const words of commands) {
      const { status, stderr } = spawnSync('sh', ['-c', script, process.execPath, COMMAND, ...words], {
        cwd: folder,
        env,
        encoding: 'utf8',
      });
      const told = expect.stringContaining(`error: Cannot write the output: ${reason}.`);
      expect({ words, status, stderr }).toEqual({ words, status: ERROR_CODES.STORAGE_FULL.exit, stderr: told });
    }
  });

  test('import converts the configuration of a TonY job into a job that runs', async () => {
    const folder = await temporaryFolder();
    const [from, to] = [path.join(folder, 'tony.xml'), path.join(folder, 'job.yaml')];
    const properties = {
      'tony.application.name': 'from TonY',
      'tony.worker.instances': '2',
      'tony.worker.memory': '512m',
      'tony.docker.enabled': 'true',
    };
    const xml = Object.entries(properties).map(([name, value]) => `<property><name>${name}</name><value>${value}</value></property>`);
    await writeFile(from, `<configuration>${xml.join('')}</configuration>`);
    const words = ['import', from, '--executes', 'echo "I am $TONY_ROLE $TONY_INDEX"', '--task-params', '--a 1', '--to', to];
    const imported = await runCommand(words);
    expect(imported).toMatchObject({ exitCode: 0, stderr: '' });
    expect(imported.stdout).toContain('Not converted:\n  tony.docker.enabled = true\n');
    expect(await runCommand(words)).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('already exists') });
    const env = { TONY_LOCAL_DIR: path.join(folder, 'root'), HADOOP_CONF_DIR: undefined };
    const submitted = await runCommand(['submit', '--conf', to, '--local', '--set', 'runtime=system'], { env });
    expect(submitted).toMatchObject({ exitCode: 0 });
    const [id = ''] = /local_\d+_\d+/.exec(submitted.stdout) ?? [];
    expect((await runCommand(['logs', id, 'worker:1'], { env })).stdout).toBe('I am worker 1 --a 1\n');
  });

  test('--debug shows the stack trace of an error', async () => {
    const { stderr } = await runCommand(['status', 'nonsense', '--debug']);
    expect(stderr).toMatch(/^\s+at /m);
  });
});

describe('submit explains the error', () => {
  test('when the source folder is missing', async () => {
    const { folder, file } = await jobFile(`${JOB}source: nowhere\n`);
    const { exitCode, stderr } = await runCommand(['submit', '--conf', file, '--local'], { env: { HOME: folder } });
    expect(stderr).toContain(`error: The source folder ${path.join(folder, 'nowhere')} does not exist.`);
    expect(exitCode).toBe(2);
    expect((await readdir(folder)).filter((name) => name !== 'job.yaml')).toEqual([]);
  });

  test("when the configuration does not name the cluster's file system", async () => {
    const { folder, file } = await jobFile();
    const { exitCode, stderr } = await runCommand(['submit', '--conf', file, '--detach'], {
      env: { HOME: folder, HADOOP_CONF_DIR: await emptyConfiguration() },
    });
    expect(stderr).toMatch(/^error: The staging folder file:.* is on this machine's disk.*\nhint: Set fs\.defaultFS/);
    expect(exitCode).toBe(2);
    expect((await readdir(folder)).filter((name) => name !== 'job.yaml')).toEqual([]);
  });

  test('when HADOOP_CONF_DIR is not set', async () => {
    const { folder, file } = await jobFile();
    const { exitCode, stderr } = await runCommand(['submit', '--conf', file], {
      env: { HADOOP_CONF_DIR: undefined, HADOOP_HOME: undefined, HOME: folder },
    });
    expect(stderr).toMatch(/^error: HADOOP_CONF_DIR is not set.*\nhint: .*--local/);
    expect(exitCode).toBe(2);
  });

  test('when a local job reads data from HDFS', async () => {
    const { folder, file } = await jobFile(`${JOB}data: {mnist: "hdfs:///data/mnist"}\n`);
    const { exitCode, stderr } = await runCommand(['submit', '--conf', file, '--local'], { env: { HOME: folder } });
    expect(stderr).toContain('--set data.mnist=PATH');
    expect(exitCode).toBe(2);
  });

  test('as JSON for programs', async () => {
    const { folder, file } = await jobFile(`${JOB}source: nowhere\n`);
    const { stdout, exitCode } = await runCommand(['submit', '--conf', file, '--local', '--output', 'json'], { env: { HOME: folder } });
    expect(jsonLines(stdout).at(-1)).toMatchObject({
      ...{ kind: 'Error', code: 'SOURCE_NOT_FOUND', hint: expect.any(String) },
      ...{ exitCode: 2, retryable: false },
    });
    expect(exitCode).toBe(2);
  });
});

async function emptyConfiguration(): Promise<string> {
  const folder = path.join(await temporaryFolder(), 'conf');
  await mkdir(folder);
  for (const name of ['core-site.xml', 'yarn-site.xml', 'hdfs-site.xml']) {
    await writeFile(path.join(folder, name), '<configuration/>');
  }
  return folder;
}
