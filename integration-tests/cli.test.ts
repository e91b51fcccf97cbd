import { mkdir, readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { runCommand } from './command.ts';
import { jsonLines, temporaryFolder } from './harness.ts';

/** What is typed wrongly, and what this machine lacks: no cluster is needed to say so. */

const JOB = 'name: hello\nframework: none\nruntime: system\ncommand: echo hello\nroles: {worker: {}}\n';

async function jobFile(text: string = JOB): Promise<{ folder: string; file: string }> {
  const folder = await temporaryFolder();
  const file = path.join(folder, 'job.yaml');
  await writeFile(file, text);
  return { folder, file };
}

describe('the command line', () => {
  test('--help is there in half a second', async () => {
    const times: number[] = [];
    for (let run = 0; run < 3; run++) {
      const start = performance.now();
      const { exitCode, stdout, stderr } = await runCommand(['--help']);
      times.push(performance.now() - start);
      expect(exitCode).toBe(0);
      expect(stderr).toBe('');
      expect(stdout).toContain('tony-ts submit');
    }
    expect(Math.min(...times)).toBeLessThan(500);
  });

  test.each([
    [['sumbit'], 'There is no command "sumbit"; did you mean "submit"?'],
    [['submit', '--cnof', 'x'], 'There is no option --cnof; did you mean --conf?'],
    [['submit', '--conf'], '--conf wants a value.'],
    [['submit', 'job.yaml'], '"job.yaml" is one word too many.'],
    [['submit', '--output', 'xml'], 'Invalid values'],
    [['status'], 'tony-ts status wants an application id'],
    [['status', 'job_1'], '"job_1" is no application id.'],
    [['logs', 'local_1_0001', '--tail', '0'], '--tail wants a number of lines'],
    [['explain', 'RM_UNREACHABEL'], 'There is no error code RM_UNREACHABEL; did you mean RM_UNREACHABLE?'],
    [['status', 'local_1_0001'], 'There is no local job local_1_0001'],
    [[], 'Say what to do'],
  ])('%j is refused with exit code 2 and without a stack', async (words, sentence) => {
    const { exitCode, stdout, stderr } = await runCommand(words, { env: { HOME: await temporaryFolder() } });
    expect(stderr).toContain(`error: ${sentence}`);
    expect(stderr).not.toMatch(/^\s+at /m);
    expect(stdout).toBe('');
    expect(exitCode).toBe(2);
  });

  test('explain says what a code means, and lists all codes', async () => {
    expect(await runCommand(['explain', 'rm_unreachable'])).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(
        /^RM_UNREACHABLE: the cluster could not be reached \(exit code 3\)\.\nCheck that the ResourceManager runs/,
      ),
    });
    const { stdout } = await runCommand(['explain']);
    expect(stdout).toContain('JOB_INVALID  the request was wrong (exit code 2)\n');
  });

  test('--debug shows the stack of a mistake', async () => {
    const { stderr } = await runCommand(['status', 'nonsense', '--debug']);
    expect(stderr).toMatch(/^\s+at /m);
  });
});

describe('a job that cannot be submitted', () => {
  test('job.yaml that is no mapping, is broken, or is missing', async () => {
    const list = await jobFile('- a\n- b\n');
    const words = (file: string): string[] => ['submit', '--conf', file, '--local'];
    const env = { HOME: list.folder };
    expect(await runCommand(words(list.file), { env })).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('mapping') });
    const broken = await jobFile('name: [\n');
    expect(await runCommand(words(broken.file), { env })).toMatchObject({
      exitCode: 2,
      stderr: expect.stringMatching(/job\.yaml:\d+:\d+/),
    });
    expect(await runCommand(words('/nonexistent/job.yaml'), { env })).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining('/nonexistent/job.yaml'),
    });
  });

  test.each(['--local', '--detach'])('a source folder that is missing (%s)', async (where) => {
    const { folder, file } = await jobFile(`${JOB}source: nowhere\n`);
    const { exitCode, stderr } = await runCommand(['submit', '--conf', file, where], {
      env: { HOME: folder, HADOOP_CONF_DIR: await emptyConfiguration() },
    });
    expect(stderr).toContain(`error: The source folder ${path.join(folder, 'nowhere')} does not exist.`);
    expect(exitCode).toBe(2);
    expect((await readdir(folder)).filter((name) => name !== 'job.yaml')).toEqual([]);
  });

  test('no HADOOP_CONF_DIR', async () => {
    const { folder, file } = await jobFile();
    const { exitCode, stderr } = await runCommand(['submit', '--conf', file], {
      env: { HADOOP_CONF_DIR: undefined, HADOOP_HOME: undefined, HOME: folder },
    });
    expect(stderr).toMatch(/^error: HADOOP_CONF_DIR is not set.*\nhint: .*--local/);
    expect(exitCode).toBe(2);
  });

  test('a local job cannot read HDFS', async () => {
    const { folder, file } = await jobFile(`${JOB}data: {mnist: "hdfs:///data/mnist"}\n`);
    const { exitCode, stderr } = await runCommand(['submit', '--conf', file, '--local'], { env: { HOME: folder } });
    expect(stderr).toContain('--set data.mnist=PATH');
    expect(exitCode).toBe(2);
  });

  test('programs get errors as JSON', async () => {
    const { folder, file } = await jobFile(`${JOB}source: nowhere\n`);
    const { stdout, exitCode } = await runCommand(['submit', '--conf', file, '--local', '--output', 'json'], { env: { HOME: folder } });
    expect(jsonLines(stdout).at(-1)).toMatchObject({ type: 'error', code: 'SOURCE_MISSING', hint: expect.any(String) });
    expect(exitCode).toBe(2);
  });
});

async function emptyConfiguration(): Promise<string> {
  const folder = path.join(await temporaryFolder(), 'conf');
  await mkdir(folder);
  for (const name of ['core-site.xml', 'yarn-site.xml', 'hdfs-site.xml']) await writeFile(path.join(folder, name), '<configuration/>');
  return folder;
}
