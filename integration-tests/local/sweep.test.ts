import { execFileSync } from 'node:child_process';
import { cp, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, expect, test } from 'vitest';
import type { JobStatus } from '../../conf/status/status.ts';
import { ROOT, startCommand } from '../command.ts';
import { jsonLines, temporaryFolder, until } from '../harness.ts';
import { MNIST } from '../small-mnist.ts';
import { TensorBoardServer } from '../tensorboard-server.ts';
import { tensorboardPython } from '../tensorboard-venv.ts';

// The first run downloads TensorBoard.
beforeAll(() => tensorboardPython());

interface SessionGroup {
  readonly name: string;
  readonly hparams: Readonly<Record<string, number>>;
  readonly metricValues: readonly { readonly value: number }[];
}

interface Row {
  readonly name: string;
  readonly configuration: { readonly rate: number; readonly units: number };
  readonly metrics: { readonly accuracy: number };
  readonly task: string;
}

interface PythonRow {
  readonly index: number;
  readonly name: string;
  readonly configuration: { readonly rate: number; readonly steps: number };
  readonly metrics: { readonly loss: number };
}

/** Returns the rows of successful trials in TensorBoard's HParams tab, when there are `count` rows. */
async function rowsIn(summaryDir: string, count: number): Promise<readonly SessionGroup[]> {
  const board = await TensorBoardServer.start(summaryDir);
  const request = { experimentName: '', allowedStatuses: ['STATUS_SUCCESS'], colParams: [], startIndex: 0, sliceSize: 100 };
  return await until(
    async () => {
      const { sessionGroups } = await board.post<{ sessionGroups: SessionGroup[] }>('hparams/session_groups', request);
      return sessionGroups.length === count && sessionGroups;
    },
    { describe: `${count} rows in the HParams tab` },
  );
}

/** Returns the metrics and the notice in the status of an ended sweep. */
async function shownAtEnd(folder: string, applicationId: string) {
  const file = path.join(folder, 'jobs', 'history', applicationId, 'final.json');
  const { metrics, notices } = JSON.parse(await readFile(file, 'utf8')) as JobStatus;
  return { metrics, best: notices.find((notice) => notice.includes('the best of')) };
}

test('a sweep of six configurations on two tasks repeats only the current trial of a killed task', async () => {
  const folder = await temporaryFolder();
  const source = path.join(folder, 'sweep');
  const begun = path.join(folder, 'begun');
  const output = path.join(folder, 'results');
  await cp(path.join(ROOT, 'examples', 'sweep'), source, { recursive: true });
  await mkdir(begun);
  const script = path.join(source, 'trial.ts');
  const plain = await readFile(script, 'utf8');
  const watched = plain.replace(
    'async ({ rate, units }, { report }) => {',
    `async ({ rate, units }, { report, name }) => {
       writeFileSync('${begun}/' + name + '-' + cluster.index + '-' + process.pid, '');
       const goes = readdirSync('${begun}').filter((each) => each.startsWith(name)).length;
       if (name === 'trial-00003' && goes === 1) await delay(600_000);`,
  );
  expect(watched).not.toBe(plain);
  const imports = ["import { readdirSync, writeFileSync } from 'node:fs';", "import { setTimeout as delay } from 'node:timers/promises';"];
  await writeFile(script, [...imports, watched].join('\n'));
  const sets = [`data.mnist=${MNIST}`, `env.OUTPUT=${output}`, 'tensorboard=false', 'heartbeat.interval=500ms'];
  const words = [
    'submit',
    '--conf',
    path.join(source, 'job.yaml'),
    '--local',
    '--output',
    'json',
    ...sets.flatMap((each) => ['--set', each]),
  ];
  const command = startCommand(words, {
    env: { TONY_LOCAL_DIR: path.join(folder, 'jobs'), HADOOP_CONF_DIR: undefined },
  });
  const victim = await until(async () => (await readdir(begun)).find((name) => name.startsWith('trial-00003-')), {
    describe: () => ({ stdout: command.stdout, stderr: command.stderr }),
  });
  process.kill(Number(victim.split('-').at(-1)), 'SIGKILL');
  const { stdout, stderr, exitCode } = await command.result;
  expect({ stderr, exitCode }).toMatchObject({ exitCode: 0 });

  const { trials } = JSON.parse(await readFile(path.join(output, 'results.json'), 'utf8')) as { trials: Row[] };
  const accuracies = trials.map(({ metrics }) => metrics.accuracy);
  expect(accuracies).toEqual([...accuracies].sort((a, b) => b - a));
  expect(accuracies[0]).toBeGreaterThan(0.87);
  expect(trials.at(-1)?.configuration).toEqual({ rate: 0.0003, units: 16 });
  expect(trials.map(({ name }) => name).sort()).toEqual([0, 1, 2, 3, 4, 5].map((index) => `trial-0000${index}`));
  const times = new Map<string, number>();
  for (const name of await readdir(begun)) {
    times.set(name.slice(0, 11), (times.get(name.slice(0, 11)) ?? 0) + 1);
  }
  expect([...times].sort()).toEqual([0, 1, 2, 3, 4, 5].map((index) => [`trial-0000${index}`, index === 3 ? 2 : 1]));

  const csv = (await readFile(path.join(output, 'results.csv'), 'utf8')).trimEnd().split('\n');
  expect(csv[0]).toBe('trial,rate,units,accuracy,loss,seconds');
  expect(csv.slice(1).map((line) => line.split(',')[0])).toEqual(trials.map(({ name }) => name));
  const { id: applicationId, summaryUri: summaryDir } = jsonLines(stdout).at(-1) as { id: string; summaryUri: string };
  const containers = path.join(folder, 'jobs', 'jobs', applicationId, 'containers');
  const logs = await Promise.all(
    (await readdir(containers)).map((name) => readFile(path.join(containers, name, 'logs', 'stdout'), 'utf8').catch(() => '')),
  );
  const tables = logs.filter((log) => /^trial +rate +units +accuracy +loss +seconds$/m.test(log));
  expect(tables).toHaveLength(1);
  expect(tables[0]).toMatch(/^best: \{"rate":/m);
  expect(await shownAtEnd(folder, applicationId)).toEqual({
    metrics: { 'sweep/trials': 6, 'sweep/best': accuracies[0] },
    best: `trial:0: the best of 6 trials is ${trials[0]?.name} ${JSON.stringify(trials[0]?.configuration)}: accuracy ${Number(accuracies[0]?.toPrecision(5))}`,
  });
  // TensorBoard shows one row per trial, including the trial that started twice.
  const groups = await rowsIn(fileURLToPath(summaryDir), 6);
  for (const { name, configuration, metrics } of trials) {
    const { hparams, metricValues } = groups.find((each) => each.name === name) as SessionGroup;
    expect(hparams).toEqual(configuration);
    expect(metricValues[0]?.value).toBeCloseTo(metrics.accuracy, 5);
  }
});

test('a sweep of a Python program on two tasks repeats only the current trial of a killed task', async () => {
  const folder = await temporaryFolder();
  const begun = path.join(folder, 'begun');
  const script = path.join(ROOT, 'integration-tests', 'programs', 'sweep-trials.py');
  await mkdir(begun);
  await mkdir(path.join(folder, 'source'));
  await cp(script, path.join(folder, 'source', 'sweep-trials.py'));
  const job =
    'name: sweep\nframework: none\nsource: source\nroles: {trial: {instances: 2, kind: independent, command: python3 sweep-trials.py}}';
  await writeFile(path.join(folder, 'job.yaml'), `${job}\nenv: {BEGUN: '${begun}'}\nheartbeat: {interval: 300ms}\n`);
  const command = startCommand(['submit', '--conf', path.join(folder, 'job.yaml'), '--local', '--output', 'json'], {
    env: { TONY_LOCAL_DIR: path.join(folder, 'jobs'), HADOOP_CONF_DIR: undefined },
  });
  const victim = await until(async () => (await readdir(begun)).find((name) => name.startsWith('trial-00003-')), {
    describe: () => ({ stdout: command.stdout, stderr: command.stderr }),
  });
  process.kill(Number(victim.split('-').at(-1)), 'SIGKILL');
  const { stdout, stderr, exitCode } = await command.result;
  expect({ stderr, exitCode }).toMatchObject({ exitCode: 0 });

  const { id: applicationId, summaryUri: summaryDir } = jsonLines(stdout).at(-1) as { id: string; summaryUri: string };
  const output = path.join(folder, 'jobs', 'output', applicationId, 'sweep');
  const starts = (await readdir(begun)).map((name) => name.slice(0, 11)).sort();
  expect(starts).toEqual([0, 1, 2, 3, 3, 4, 5].map((index) => `trial-0000${index}`));
  const losses = JSON.parse(execFileSync('python3', [script, path.join(output, '_SWEEP')]).toString()) as number[];
  const { trials } = JSON.parse(await readFile(path.join(output, 'results.json'), 'utf8')) as { trials: PythonRow[] };
  expect(trials.map(({ index, metrics }) => [metrics.loss, index])).toEqual(
    losses.map((loss, index) => [loss, index]).sort(([a = 0], [b = 0]) => a - b),
  );
  const rows = (await rowsIn(fileURLToPath(summaryDir), 6)).map(({ name, hparams, metricValues }) => {
    return [name, hparams, metricValues.map(({ value }) => value)];
  });
  const expected = trials.map(({ name, configuration, metrics }) => [name, configuration, [expect.closeTo(metrics.loss, 5)]]);
  const byName = ([a]: unknown[], [b]: unknown[]): number => (String(a) < String(b) ? -1 : 1);
  expect(rows.sort(byName)).toEqual(expected.sort(byName));
  const [best] = trials;
  const { metrics, best: named } = await shownAtEnd(folder, applicationId);
  expect(metrics).toEqual({ 'sweep/trials': 6, 'sweep/best': best?.metrics.loss });
  const configuration = `{"rate":${best?.configuration.rate},"steps":${best?.configuration.steps}}`;
  expect(named).toContain(`trial:0: the best of 6 trials is ${best?.name} ${configuration}: loss `);
});
