import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/**
 * TonY configurations of each kind, with the end that their jobs have in TonY 0.5. The ends are derived from TonY's sources: `TonySession`
 * (onTaskCompleted, updateSessionStatus), `ApplicationMaster` (monitor, handleFinishedTask, run) and `Utils` (parseContainerRequests).
 */
export interface MigrationCase {
  readonly name: string;
  /** Whether the job also runs in tests without a cluster. */
  readonly quick?: true;
  readonly settings: Readonly<Record<string, string>>;
  /** Programs by role or task, as shell commands. The first that matches `role:index` or `role` runs. */
  readonly programs: Readonly<Record<string, string>>;
  /** Options of `tony-ts import`. */
  readonly options?: readonly string[];
  /** Whether the job succeeds in TonY. */
  readonly succeeds: boolean;
  /** Results that the tasks have written when the job has ended in TonY. */
  readonly results: readonly string[];
  /** Final states of tasks in tony-ts. */
  readonly tasks: Readonly<Record<string, string>>;
}

const FOREVER = 'exec sleep 1000';
const PS_JOB = { 'tony.application.framework': 'tensorflow', 'tony.ps.instances': '1', 'tony.worker.instances': '2' };

export const MIGRATION_CASES: readonly MigrationCase[] = [
  {
    name: 'parameter servers: the job waits for the worker that ends last (getTotalTrackedTasks)',
    quick: true,
    settings: PS_JOB,
    programs: { ps: FOREVER, 'worker:0': 'result', 'worker:1': 'sleep 3; result' },
    succeeds: true,
    results: ['worker:0', 'worker:1'],
    tasks: { 'ps:0': 'stopped', 'worker:0': 'succeeded', 'worker:1': 'succeeded' },
  },
  {
    name: 'a chief does not end the job: the evaluator exports its model (isJobTypeMonitored)',
    quick: true,
    settings: { ...PS_JOB, 'tony.worker.instances': '1', 'tony.chief.instances': '1', 'tony.evaluator.instances': '1' },
    programs: { ps: FOREVER, chief: 'result', worker: 'sleep 1; result', evaluator: 'sleep 4; result' },
    succeeds: true,
    results: ['chief:0', 'evaluator:0', 'worker:0'],
    tasks: { 'ps:0': 'stopped', 'chief:0': 'succeeded', 'evaluator:0': 'succeeded' },
  },
  {
    name: 'a worker that fails is ignored by default (updateSessionStatus)',
    quick: true,
    settings: PS_JOB,
    programs: { ps: FOREVER, 'worker:0': 'sleep 2; result', 'worker:1': 'exit 3' },
    succeeds: true,
    results: ['worker:0'],
    tasks: { 'worker:0': 'succeeded', 'worker:1': 'failed' },
  },
  {
    name: 'a worker that fails ends the job with fail-on-worker-failure-enabled (onTaskCompleted)',
    settings: { ...PS_JOB, 'tony.application.fail-on-worker-failure-enabled': 'TRUE' },
    programs: { ps: FOREVER, 'worker:0': FOREVER, 'worker:1': 'exit 3' },
    succeeds: false,
    results: [],
    tasks: { 'worker:1': 'failed' },
  },
  {
    name: 'the chief that fails ends the job (isChief)',
    settings: PS_JOB,
    programs: { ps: FOREVER, 'worker:0': 'exit 3', 'worker:1': FOREVER },
    succeeds: false,
    results: [],
    tasks: { 'worker:0': 'failed' },
  },
  {
    name: 'untracked tasks and sidecars do not delay the end, and a sidecar may fail (handleFinishedTask)',
    settings: {
      'tony.application.framework': 'mxnet',
      'tony.worker.instances': '1',
      'tony.store.instances': '1',
      'tony.watch.instances': '1',
      'tony.application.untracked.jobtypes': 'store',
      'tony.application.sidecar.jobtypes': 'watch',
    },
    programs: { store: FOREVER, watch: 'exit 1', worker: 'sleep 2; result' },
    succeeds: true,
    results: ['worker:0'],
    tasks: { 'store:0': 'stopped', 'worker:0': 'succeeded' },
  },
  {
    name: 'an untracked task that fails ends the job (untrackedTaskFailed)',
    settings: {
      'tony.application.framework': 'mxnet',
      'tony.worker.instances': '2',
      'tony.store.instances': '1',
      'tony.application.untracked.jobtypes': 'store',
      'tony.application.stop-on-failure-jobtypes': 'store',
    },
    programs: { store: 'exit 1', worker: FOREVER },
    succeeds: false,
    results: [],
    tasks: { 'store:0': 'failed' },
  },
  {
    name: 'the variables of a single node, with those of -shell_env last (parseKeyValue)',
    quick: true,
    settings: { 'tony.containers.envs': 'HOSTS=h1,FLAG,LR=0.1', 'tony.execution.envs': 'LR=0.10' },
    options: ['--shell-env', 'STEP=010'],
    programs: { worker: 'test "$HOSTS/$FLAG/$LR/$STEP/$(printenv FLAG | wc -l)" = "h1//0.10/010/1" && result' },
    succeeds: true,
    results: ['worker:0'],
    tasks: { 'worker:0': 'succeeded' },
  },
  {
    name: 'a program that fails once succeeds in the next session (tony.am.retry-count)',
    settings: { 'tony.application.framework': 'pytorch', 'tony.worker.instances': '2', 'tony.am.retry-count': '1' },
    programs: { 'worker:1': 'test -e $OUT/tried || { touch $OUT/tried; exit 1; }; result', worker: 'sleep 1; result' },
    succeeds: true,
    results: ['tried', 'worker:0', 'worker:1'],
    tasks: { 'worker:0': 'succeeded', 'worker:1': 'succeeded' },
  },
  {
    name: 'the training stage follows the prepare stage (registerDependencyCompleted)',
    settings: {
      ...PS_JOB,
      'tony.worker.instances': '1',
      'tony.loader.instances': '1',
      'tony.application.prepare-stage': 'loader',
      'tony.application.training-stage': 'ps,worker',
    },
    programs: { ps: FOREVER, loader: 'sleep 1; result', worker: 'test -e $OUT/loader:0 && result' },
    succeeds: true,
    results: ['loader:0', 'worker:0'],
    tasks: { 'loader:0': 'succeeded', 'worker:0': 'succeeded', 'ps:0': 'stopped' },
  },
  {
    name: 'an evaluator that exceeds its time after the workers ends quietly (ignored)',
    settings: {
      ...PS_JOB,
      'tony.evaluator.instances': '1',
      'tony.application.group.A': 'worker',
      'tony.application.dependency.evaluator.timeout.after.A': '1',
      'tony.application.dependency.evaluator.timeout.after.A.ignored': 'True',
    },
    programs: { ps: FOREVER, worker: 'result', evaluator: FOREVER },
    succeeds: true,
    results: ['worker:0', 'worker:1'],
    tasks: { 'ps:0': 'stopped', 'evaluator:0': 'stopped', 'worker:1': 'succeeded' },
  },
];

/** Writes tony.xml, the program and the folder for results. Returns the folder for results. */
export function writeMigration(folder: string, { settings, programs }: MigrationCase): string {
  const out = path.join(folder, 'out');
  mkdirSync(out);
  // On a cluster, programs run as another user.
  chmodSync(out, 0o777);
  const own = { ...settings, 'tony.containers.envs': [settings['tony.containers.envs'], `OUT=${out}`].filter(Boolean).join(',') };
  const command = Object.hasOwn(settings, 'tony.worker.instances') ? { 'tony.containers.command': 'bash program.sh' } : {};
  const properties = Object.entries({ ...own, ...command }).map(
    ([name, value]) => `<property><name>${name}</name><value>${value}</value></property>`,
  );
  writeFileSync(path.join(folder, 'tony.xml'), `<configuration>\n${properties.join('\n')}\n</configuration>\n`);
  mkdirSync(path.join(folder, 'source'));
  const cases = Object.entries(programs).map(([task, program]) => `  ${task.includes(':') ? task : `${task}:*`}) ${program};;`);
  const lines = ['result() { touch "$OUT/$TONY_ROLE:$TONY_INDEX"; }', 'case "$TONY_ROLE:$TONY_INDEX" in', ...cases, 'esac', ''];
  const file = path.join(folder, 'source', 'program.sh');
  writeFileSync(file, lines.join('\n'));
  execFileSync('bash', ['-n', file]);
  return out;
}

export function importOptions({ options = [], settings }: MigrationCase): string[] {
  const executes = Object.hasOwn(settings, 'tony.worker.instances') ? [] : ['--executes', 'bash program.sh'];
  return ['--src-dir', 'source', ...executes, ...options];
}

export function resultsIn(folder: string): string[] {
  return readdirSync(folder).sort();
}
