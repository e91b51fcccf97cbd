import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { localPaths } from '../client/files/local-layout.ts';
import { runCommand } from './command.ts';
import { jsonLines, temporaryFolder, until, useCluster } from './harness.ts';

/** Each program has its own working directory. Changes in this directory affect neither other tasks nor later jobs with the same source. */

const cluster = useCluster();
/** There are more tasks than nodes, so two tasks share a node. */
const TASKS = 3;

/** Records the files in the working directory and changes them. When the other tasks have changed their files, records the files again. */
const PROGRAM = [
  'record=$OUT/$RUN-$TONY_INDEX-$TONY_GENERATION',
  'ls > $record-names; cat state.txt > $record-before; [ -x run.sh ] && [ -w run.sh ] && echo ours >> $record-before',
  'rm job.yaml; echo "task $TONY_INDEX" >> state.txt',
  'touch $record-changed',
  `while [ $(ls $OUT/$RUN-*-$TONY_GENERATION-changed | wc -l) -lt ${TASKS} ]; do sleep 0.1; done`,
  'cat state.txt > $record-after',
  'if [ $RUN-$TONY_INDEX-$TONY_GENERATION = restarted-0-1 ]; then exit 3; fi',
];

interface Job {
  readonly file: string;
  readonly out: string;
  records(run: string, kind: string): Record<string, string>;
}

async function makeJob(): Promise<Job> {
  const folder = await temporaryFolder();
  const out = path.join(folder, 'out');
  const source = path.join(folder, 'source');
  for (const each of [out, source]) {
    mkdirSync(each);
  }
  // This text is unique to the run, so no other test has the same source.
  writeFileSync(path.join(source, 'state.txt'), `pristine ${folder}\n`);
  writeFileSync(path.join(source, 'job.yaml'), 'a file like any other\n');
  writeFileSync(path.join(source, 'run.sh'), PROGRAM.join('\n'), { mode: 0o755 });
  const file = path.join(folder, 'job.yaml');
  const job = [
    'name: own-folder',
    'framework: none',
    'runtime: system',
    'source: source',
    'command: bash run.sh',
    `env: {OUT: "${out}", RUN: first}`,
    `roles: {worker: {instances: ${TASKS}, kind: gang, resources: {memory: 256m}}}`,
  ];
  writeFileSync(file, `${job.join('\n')}\n`);
  return {
    file,
    out,
    records: (run, kind) => {
      const names = readdirSync(out).filter((name) => name.startsWith(`${run}-`) && name.endsWith(`-${kind}`));
      return Object.fromEntries(
        names
          .sort()
          .map((name) => [name.slice(run.length + 1, -kind.length - 1), readFileSync(path.join(out, name), 'utf8').replaceAll(folder, '')]),
      );
    },
  };
}

const PRISTINE = 'pristine \nours\n';

function all<T>(value: (index: number) => T, generation = 1): Record<string, T> {
  return Object.fromEntries(Array.from({ length: TASKS }, (_, index) => [`${index}-${generation}`, value(index)]));
}

function expectPristine(job: Job, run: string, generation = 1): void {
  expect(job.records(run, 'names')).toMatchObject(all(() => 'job.yaml\nrun.sh\nstate.txt\n', generation));
  expect(job.records(run, 'before')).toMatchObject(all(() => PRISTINE, generation));
  // When a program fails, the executors stop its peers at an arbitrary point of the script.
  if (run === 'restarted' && generation === 1) {
    return;
  }
  expect(job.records(run, 'after')).toMatchObject(all((index) => `pristine \ntask ${index}\n`, generation));
}

test('on a cluster, each program starts in a folder without changes by other programs', async () => {
  const job = await makeJob();
  for (const run of ['first', 'second', 'restarted']) {
    const words = ['submit', '--conf', job.file, '--set', `env.RUN=${run}`, '--set', 'heartbeat.interval=200ms'];
    const { exitCode, stderr } = await cluster.run(words);
    expect({ run, exitCode, stderr }).toEqual({ run, exitCode: 0, stderr: expect.any(String) });
    expectPristine(job, run);
  }
  expectPristine(job, 'restarted', 2);
});

test('on this machine, each program starts in a folder without changes by other programs, and the job removes the folder when it ends', async () => {
  const job = await makeJob();
  const root = path.join(path.dirname(job.file), 'root');
  for (const run of ['first', 'second']) {
    const words = ['submit', '--local', '--conf', job.file, '--set', `env.RUN=${run}`, '--output', 'json'];
    const { exitCode, stdout } = await runCommand(words, { env: { TONY_LOCAL_DIR: root, HADOOP_CONF_DIR: undefined } });
    expect(exitCode).toBe(0);
    expectPristine(job, run);
    const id = jsonLines(stdout).find((line) => typeof line.id === 'string')?.id as string;
    const { containers } = localPaths(root, id);
    const left = (): string[] => readdirSync(containers).flatMap((container) => readdirSync(path.join(containers, container, 'work')));
    expect(left()).toContain('source');
    // The ApplicationMaster reports the result before it has removed the folders.
    await until(() => !left().includes('program'), { describe: left });
  }
});
