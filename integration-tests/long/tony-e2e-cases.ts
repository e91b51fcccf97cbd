/**
 * TonY's own end-to-end tests (TestTonyE2E in TonY 0.5) that configure a job: the configuration, TonY's command-line options, and the
 * result in TonY. The times are shorter than in TonY's tests.
 */
export interface TonyCase {
  /** Name of TonY's test without `test`. */
  readonly name: string;
  readonly settings: Readonly<Record<string, string>>;
  /** Options of `tony-ts import`, which are those of TonY's client. */
  readonly options: readonly string[];
  /** Whether the job succeeds in TonY. */
  readonly succeeds: boolean;
  /** Final states of the tasks in tony-ts. */
  readonly tasks: Readonly<Record<string, string>>;
  /** Pattern for the reason of a failure in tony-ts. */
  readonly reason?: RegExp;
  /** Pattern for the error if `tony-ts submit` refuses the job. */
  readonly refused?: RegExp;
}

const FOREVER = 'exec sleep 1000';
const CHECK = `sh -c 'test "$ENV_CHECK" = ENV_CHECK'`;
const GROUP = {
  'tony.chief.instances': '1',
  'tony.worker.instances': '2',
  'tony.worker.command': FOREVER,
  'tony.application.framework': 'tensorflow',
  'tony.application.group.A': 'chief',
  'tony.application.dependency.worker.timeout.after.A': '2',
};
const IGNORED = { 'tony.application.dependency.worker.timeout.after.A.ignored': 'true' };
const PS_AND_WORKER = { 'tony.ps.instances': '1', 'tony.worker.instances': '1' };

export const TONY_CASES: readonly TonyCase[] = [
  {
    name: 'SingleNodeTrainingShouldPass',
    settings: {},
    options: ['--executes', CHECK, '--shell-env', 'ENV_CHECK=ENV_CHECK'],
    succeeds: true,
    tasks: { 'worker:0': 'succeeded' },
  },
  {
    name: 'SingleNodeTrainingShouldFail',
    settings: { 'tony.application.stop-on-failure-jobtypes': 'worker' },
    options: ['--executes', 'exit 1'],
    succeeds: false,
    tasks: { 'worker:0': 'failed' },
    reason: /worker:0 .*exited with code 1/,
  },
  {
    name: 'PSWorkerTrainingShouldPass',
    settings: { 'tony.worker.instances': '1' },
    options: ['--executes', 'check.py', '--python-binary-path', 'bin/python', '--python-venv', 'venv.zip', '--shell-env', 'ENV_CHECK=1'],
    succeeds: true,
    tasks: { 'worker:0': 'succeeded' },
  },
  {
    name: 'WorkerTrainingPyTorchShouldPass',
    settings: { 'tony.application.framework': 'pytorch', 'tony.ps.instances': '0', 'tony.worker.instances': '2' },
    options: ['--executes', `sh -c 'test "$WORLD_SIZE" = 2 && test "$RANK" = "$TONY_RANK" && test -n "$MASTER_ADDR$MASTER_PORT"'`],
    succeeds: true,
    tasks: { 'worker:0': 'succeeded', 'worker:1': 'succeeded' },
  },
  {
    name: 'PSWorkerTrainingShouldFail',
    settings: PS_AND_WORKER,
    options: ['--executes', 'exit 1'],
    succeeds: false,
    tasks: {},
    reason: /exited with code 1/,
  },
  {
    name: 'TonyAMSchedulerShouldPass',
    settings: {
      ...PS_AND_WORKER,
      'tony.db.instances': '1',
      'tony.dbloader.instances': '1',
      'tony.dbloader.command': 'sleep 1; exit 0',
      'tony.application.prepare-stage': 'dbloader,db',
      'tony.application.training-stage': 'ps,worker',
    },
    options: ['--executes', 'exit 0'],
    succeeds: true,
    tasks: { 'db:0': 'succeeded', 'dbloader:0': 'succeeded', 'worker:0': 'succeeded' },
  },
  {
    name: 'TonyResourcesFlag',
    settings: {
      'tony.worker.instances': '1',
      'tony.worker.resources': 'one.zip::renamed.zip,two.zip#archive',
      'tony.containers.resources': 'common.zip',
    },
    options: ['--executes', 'test -f common.zip && test -f renamed.zip && test -f two.zip/content.txt'],
    succeeds: true,
    tasks: { 'worker:0': 'succeeded' },
  },
  {
    name: 'StandaloneRuntimeModeShouldPass',
    settings: { 'tony.application.framework': 'standalone', 'tony.worker.instances': '1' },
    options: ['--executes', 'exit 0'],
    succeeds: true,
    tasks: { 'worker:0': 'succeeded' },
  },
  {
    name: 'TaskCompletionNotificationDelayed',
    settings: {
      'tony.worker.instances': '1',
      'tony.task.heartbeat-interval-ms': '200',
      'tony.task.max-missed-heartbeats': '50',
    },
    options: ['--executes', 'exit 0'],
    succeeds: true,
    tasks: { 'worker:0': 'succeeded' },
  },
  {
    name: 'TonyClientCallbackHandler',
    settings: { ...PS_AND_WORKER, 'tony.ps.command': FOREVER, 'tony.worker.command': 'python3 -c "print(1)"' },
    options: [],
    succeeds: true,
    tasks: { 'ps:0': 'stopped', 'worker:0': 'succeeded' },
  },
  {
    name: 'TonyPSCrashShouldFailAndStopAM',
    settings: {
      ...PS_AND_WORKER,
      'tony.ps.command': 'sleep 1; exit 1',
      'tony.worker.command': FOREVER,
      'tony.application.untracked.jobtypes': 'ps',
    },
    options: [],
    succeeds: false,
    tasks: { 'ps:0': 'failed', 'worker:0': 'stopped' },
    reason: /ps:0 .*exited with code 1/,
  },
  {
    name: 'TonySidecarExecutorCrashShouldPass',
    settings: {
      'tony.sidecarexecutor.instances': '1',
      'tony.worker.instances': '1',
      'tony.sidecarexecutor.command': 'exit 1',
      'tony.worker.command': 'sleep 5',
      'tony.application.sidecar.jobtypes': 'sidecarexecutor',
    },
    options: [],
    succeeds: true,
    tasks: { 'worker:0': 'succeeded' },
  },
  {
    name: 'TonyHorovodWithDebugModeShouldPass',
    settings: {
      'tony.application.framework': 'horovod',
      'tony.horovod.driver.mode.debug': 'true',
      'tony.worker.instances': '2',
      'tony.driver.instances': '1',
      'tony.application.untracked.jobtypes': 'driver',
      'tony.driver.command': 'python driver.py -t -p 9999',
    },
    options: ['--executes', `sh -c 'test "$HOROVOD_SIZE" = 2 && test -n "$HOROVOD_RANK" && test "$HOROVOD_GLOO_RENDEZVOUS_PORT" -gt 0'`],
    succeeds: true,
    tasks: { 'worker:0': 'succeeded', 'worker:1': 'succeeded' },
  },
  {
    name: 'TonyAllocationTimeoutShouldFail',
    settings: { 'tony.worker.instances': '10000', 'tony.container.allocation.timeout': '1000' },
    options: ['--executes', 'exit 0'],
    succeeds: false,
    tasks: {},
    refused: /The job requests .* at the same time, .* can provide at most .*roles\.worker\.instances \(10000\)/,
  },
  {
    name: 'GroupDependencyTimeoutShouldPass',
    settings: GROUP,
    options: ['--executes', 'exit 0'],
    succeeds: false,
    tasks: { 'chief:0': 'succeeded' },
    reason: /worker:\d had not ended 2 s after the end of role chief/,
  },
  {
    name: 'TaskWithDependencyTimeoutButIgnoredShouldPass',
    settings: { ...GROUP, ...IGNORED },
    options: ['--executes', 'exit 0'],
    succeeds: true,
    tasks: { 'chief:0': 'succeeded', 'worker:0': 'stopped', 'worker:1': 'stopped' },
  },
  {
    name: 'TaskWithDependencyTimeoutButIgnoredAndWithPSShouldPass',
    settings: { ...GROUP, ...IGNORED, 'tony.ps.instances': '1', 'tony.ps.command': FOREVER },
    options: ['--executes', 'exit 0'],
    succeeds: true,
    tasks: { 'chief:0': 'succeeded', 'worker:0': 'stopped', 'worker:1': 'stopped', 'ps:0': 'stopped' },
  },
  {
    // Unlike TonY, tony-ts stops the workers when their time is up, so they must fail before that.
    name: 'TaskWithDependencyTimeAndIgnoredButFailedShouldPass',
    settings: {
      ...GROUP,
      ...IGNORED,
      'tony.application.dependency.worker.timeout.after.A': '60',
      'tony.worker.command': 'sleep 2; exit 1',
      'tony.evaluator.instances': '1',
      'tony.evaluator.command': FOREVER,
      'tony.application.stop-on-failure-jobtypes': 'worker',
    },
    options: ['--executes', 'exit 0'],
    succeeds: false,
    tasks: { 'evaluator:0': 'stopped' },
    reason: /worker:\d .*exited with code 1/,
  },
];
