import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { localPaths } from '../../client/files/local-layout.ts';
import type { JobStatus } from '../../conf/status/status.ts';
import { ROOT, runCommand, startCommand } from '../command.ts';
import { execute } from '../execute.ts';
import { temporaryFolder } from '../harness.ts';
import { pythonThatImports } from '../python-environment.ts';

/** Open MPI and mpi4py of the system; null if the machine has none. */
const python = await pythonThatImports('mpi4py.MPI');

const resultIn = (text: string): unknown => JSON.parse(/\{"processes".*\}/.exec(text)?.[0] ?? 'null');

/** Fails once in a process that mpirun starts in the other task. */
const FAILING = `import os
if os.environ["TONY_TASK_RANK"] == "1" and os.environ["TONY_GENERATION"] == "1":
    os._exit(3)
exec(open("train.py").read())
`;

test.skipIf(python === null)(
  'mpirun starts processes in the other task, and a job with a failed process has the result of mpirun alone',
  async () => {
    const folder = await temporaryFolder();
    const source = path.join(folder, 'mpi');
    await cp(path.join(ROOT, 'examples', 'mpi'), source, { recursive: true });
    await writeFile(path.join(source, 'failing.py'), FAILING);
    const root = path.join(folder, 'root');
    const words = ['submit', '--local', '--conf', path.join(source, 'job.yaml'), '--set', `command=mpirun ${python} failing.py`];
    const submitted = startCommand(words, { env: { TONY_LOCAL_DIR: root, HADOOP_CONF_DIR: undefined } });
    const [id] = await submitted.output(/local_\d+_\d+/);
    expect((await submitted.result).exitCode).toBe(0);
    const paths = localPaths(root, id);
    const final = JSON.parse(await readFile(path.join(paths.history, 'final.json'), 'utf8')) as JobStatus;
    expect(final).toMatchObject({ state: 'succeeded', generations: 2, checkpointStep: 150 });
    const shown = await runCommand(['history', 'show', id], { env: { TONY_LOCAL_DIR: root, HADOOP_CONF_DIR: undefined } });
    expect(shown.stdout).toMatch(/succeeded {2}step \d+ {2}loss [\d.]+/);
    const container = final.tasks.find(({ index }) => index === 0)?.containerId ?? '';
    const output = await readFile(path.join(paths.containers, container, 'logs', 'stdout'), 'utf8');
    const alone = await execute(python as string, ['train.py'], {
      cwd: source,
      env: { ...process.env, PYTHONPATH: path.join(ROOT, 'python') },
    });
    expect(resultIn(output)).toEqual({ ...(resultIn(alone.stdout) as object), processes: 4 });
  },
);

test.skipIf(python === null)('each MPI process starts in its own task, in the folder in which the shell runs mpirun', async () => {
  const folder = await temporaryFolder();
  await mkdir(path.join(folder, 'sub', 'deeper'), { recursive: true });
  await writeFile(path.join(folder, 'sub', 'where'), '#!/bin/sh\necho "$1 $TONY_INDEX $(pwd -P)"\n', { mode: 0o755 });
  await writeFile(
    path.join(folder, 'job.yaml'),
    `name: cd
framework: mpi
source: .
command: |
  mpirun sub/where start
  cd sub && mpirun ./where sub
  cd deeper && mpirun ../where deeper
  mkdir new && cd new && mpirun ../../where new
  cd ../../.. && mpirun sub/where back
roles: { worker: { instances: 2, resources: { memory: 512m } } }
`,
  );
  const environment = { TONY_LOCAL_DIR: path.join(folder, 'root'), HADOOP_CONF_DIR: undefined };
  const { stdout, stderr, exitCode } = await runCommand(['submit', '--local', '--conf', path.join(folder, 'job.yaml'), '--logs', 'all'], {
    env: environment,
  });
  expect(exitCode, stdout + stderr).toBe(0);
  const places = [...stdout.matchAll(/(start|sub|deeper|new|back) ([01]) (\/\S+)/g)].map(([, step, index, at]) => ({ step, index, at }));
  const homes = ['0', '1'].map((index) => places.find((each) => each.step === 'start' && each.index === index)?.at ?? '');
  expect(new Set(homes).size).toBe(2);
  for (const [index, home] of homes.entries()) {
    const own = places.filter((each) => each.index === String(index));
    expect(own.map(({ step, at }) => `${step} ${path.relative(home, at ?? '')}`).sort()).toEqual(
      ['start ', 'sub sub', 'deeper sub/deeper', 'new sub/deeper/new', 'back '].sort(),
    );
  }
});
