import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { describe, expect, test } from 'vitest';
import { pause } from '../../platform/async/backoff.ts';
import { COMMAND, environment, ROOT } from '../command.ts';
import { execute } from '../execute.ts';
import { temporaryFolder, until, useCluster } from '../harness.ts';
import { pythonWith } from '../python-environment.ts';

/** Runs jobs on a cluster from Airflow, and with the script for Azkaban and Oozie. */

const AIRFLOW = ['apache-airflow-core==3.1.3', 'apache-airflow-providers-standard==1.21.0'];
const WORKFLOWS = path.join(ROOT, 'examples', 'workflows');
/** Time in ms between YARN's SIGTERM and its SIGKILL, by default. */
const YARN_GRACE_MS = 250;

const cluster = useCluster();

async function jobFolder(command: string): Promise<string> {
  const folder = await temporaryFolder();
  mkdirSync(path.join(folder, 'source'));
  const lines = ['name: train', 'framework: none', 'runtime: system', 'source: source', `command: ${JSON.stringify(command)}`];
  lines.push('roles: {worker: {restart: {policy: never}, resources: {memory: 512m}}}', 'master: {resources: {memory: 512m}}');
  writeFileSync(path.join(folder, 'job.yaml'), `${lines.join('\n')}\n`);
  // Puts tony-ts on the PATH.
  mkdirSync(path.join(folder, 'bin'));
  symlinkSync(COMMAND, path.join(folder, 'bin', 'tony-ts'));
  return folder;
}

function environmentOf(folder: string, more: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  const PATH = [path.join(folder, 'bin'), path.dirname(process.execPath), process.env.PATH].join(':');
  return environment({ ...cluster.clientEnvironment(), PATH, ...more });
}

describe('Airflow', { timeout: 900_000 }, () => {
  const TRAIN = `python3 -c "import tony; tony.report(loss=0.5, step=7)" && test -n "$DAY"`;

  async function testDag(dag: string, name: string, command: string): Promise<{ exitCode: number; output: string }> {
    const python = await pythonWith(path.join(ROOT, '.cache', 'airflow-3.1.3'), AIRFLOW);
    const folder = await jobFolder(command);
    const dags = path.join(folder, 'dags');
    mkdirSync(dags);
    const text = dag.replace('/opt/jobs/mnist', folder).replace('/etc/hadoop/conf', cluster.configuration);
    writeFileSync(path.join(dags, 'dag.py'), text);
    const env = environmentOf(folder, {
      ...{ AIRFLOW_HOME: folder, AIRFLOW__CORE__DAGS_FOLDER: dags, AIRFLOW__CORE__LOAD_EXAMPLES: 'False' },
      PYTHONPATH: path.join(ROOT, 'python'),
    });
    const airflow = (...words: string[]) => execute(python, ['-m', 'airflow', ...words], { env });
    await airflow('db', 'migrate');
    const ended = await airflow('dags', 'test', name).then(
      ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
      (error: { code: number; stdout: string; stderr: string }) => error,
    );
    return { exitCode: ended.code, output: stripVTControlCharacters(ended.stdout + ended.stderr) };
  }

  const dagOf = (options: string) =>
    'from datetime import timedelta\nfrom airflow.sdk import DAG\nfrom tony.airflow import TonyOperator\n' +
    `with DAG("one", schedule=None):\n    TonyOperator(task_id="train", conf="/opt/jobs/mnist/job.yaml"${options})\n`;

  test('the example trains, and its second task prints the metrics', async () => {
    const { exitCode, output } = await testDag(readFileSync(path.join(WORKFLOWS, 'train_dag.py'), 'utf8'), 'train', TRAIN);
    expect(output).toMatch(/^application_\d+_\d+ has trained 7 steps: \{'loss': 0\.5\}$/m);
    expect(exitCode).toBe(0);
  });

  test('a task fails with the reason why its job has failed', async () => {
    const { exitCode, output } = await testDag(dagOf(''), 'one', 'echo the cause >&2; exit 3');
    expect(output).toMatch(
      /failed worker:0 failed, and its role allows no restart: .* exited with code 3\.\nLast lines of its stderr:\nthe cause/,
    );
    expect(output).toMatch(/TonyError: application_\d+_\d+ has failed: worker:0 failed/);
    expect(exitCode).toBe(1);
  });

  test('the job is killed if its task exceeds its time limit', async () => {
    const limited = dagOf(', execution_timeout=timedelta(seconds=30)');
    const { exitCode, output } = await testDag(limited, 'one', 'exec sleep 1000');
    const [, id = ''] = /killing (application_\d+_\d+)/.exec(output) ?? [];
    expect(await cluster.ended(id)).toMatchObject({ finalStatus: 'KILLED' });
    expect(exitCode).toBe(1);
  });
});

describe('run.sh', () => {
  async function startScript(command: string) {
    const folder = await jobFolder(command);
    copyFileSync(path.join(WORKFLOWS, 'run.sh'), path.join(folder, 'run.sh'));
    // Like a container of YARN, the script has a process group of its own.
    const script = spawn('bash', ['run.sh'], {
      cwd: folder,
      env: environmentOf(folder),
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const group = -(script.pid as number);
    let output = '';
    for (const stream of [script.stdout, script.stderr]) {
      stream.on('data', (bytes: Buffer) => {
        output += bytes;
      });
    }
    const ended = once(script, 'close').then(([exitCode]: (number | null)[]) => ({ exitCode, output }));
    const sees = (pattern: RegExp) => until(() => pattern.exec(output), { describe: () => output });
    return { group, script, ended, sees };
  }

  test.each([0, 3])('follows the job, and exits with its result (exit code %d)', async (code) => {
    const { ended } = await startScript(`exit ${code}`);
    expect(await ended).toEqual({
      exitCode: code === 0 ? 0 : 1,
      output: expect.stringMatching(/^submitted application_.* (succeeded|failed)$/ms),
    });
  });

  test('kills the job when YARN ends all processes of the script', async () => {
    const { group, sees } = await startScript('exec sleep 1000');
    const [, id = ''] = await sees(/^submitted (application_\d+_\d+)$/m);
    await sees(/^worker:0 running/m);
    process.kill(group, 'SIGTERM');
    await pause(YARN_GRACE_MS);
    process.kill(group, 'SIGKILL');
    expect(await cluster.ended(id)).toMatchObject({ finalStatus: 'KILLED' });
  });

  test('kills the job when the script is ended during the submission', async () => {
    const before = new Set((await cluster.applications()).map(({ id }) => id));
    const { script, ended } = await startScript('exec sleep 1000');
    const submitted = await until(async () => (await cluster.applications()).find(({ id }) => !before.has(id)), {
      describe: 'the script has submitted the job',
    });
    script.kill('SIGTERM');
    expect(await cluster.ended(submitted.id)).toMatchObject({ finalStatus: 'KILLED' });
    expect((await ended).exitCode).not.toBe(0);
  });
});
