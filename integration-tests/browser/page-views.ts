import { describeFailure } from '../../conf/status/event-text.ts';
import { jobInfo } from '../../conf/status/job-info.ts';
import { taskFailure } from '../../conf/status/job-status.fixture.ts';
import type { HistoryEntry, JobStatus, TaskState, TaskStatus, UsageSample } from '../../conf/status/status.ts';
import type { JobView, ScalarCharts } from '../../web/job-view.ts';
import { at, chartsOf, job, lines, running, samplesOf, started, task, usage } from './scene-parts.ts';

/** Job states that the tests display on the page, with real or realistic numbers. */

/** Data for a job's page. A field is undefined if the job does not provide that data. */
export interface Scene {
  status: JobStatus;
  entries?: readonly HistoryEntry[];
  samples?: readonly UsageSample[];
  charts?: ScalarCharts;
  logs?: Readonly<Record<string, string>>;
  configuration?: unknown;
}

/** Returns a view that reads `scene` on every request, so tests can change the scene between requests. */
export function sceneView(scene: Scene): JobView {
  return {
    status: async () => jobInfo(scene.status),
    configuration: async () => scene.configuration ?? {},
    events: async (after) => ({ entries: (scene.entries ?? []).slice(after), next: scene.entries?.length ?? 0 }),
    usage: async (after) => {
      const samples = (scene.samples ?? []).filter(({ at }) => at > after);
      return { samples, next: samples.at(-1)?.at ?? after };
    },
    scalars: async () => scene.charts ?? { runs: [], message: '' },
    log: async (task, file, tail) => {
      const text = scene.logs?.[`${task}/${file}`];
      return text === undefined ? null : { text: text.slice(-tail), skipped: Math.max(0, text.length - tail) };
    },
  };
}

const MINUTE = 60_000;

const succeeded = { code: 0, signal: null };
const lost = taskFailure({
  cause: { kind: 'container', end: 'node-lost', exitStatus: -100, memoryBytes: 2 ** 31, message: '' },
  cost: 'free',
  node: 'node3.example.com:8041',
});

export function runningScene(now = Date.now()): Scene {
  const startedAt = now - 12 * MINUTE;
  const tasks = [
    task('worker', 0, { step: 8412, usage: usage(685_666_304, 0.93, [0.91]), metrics: { 'train/loss': 0.0213 } }),
    task('worker', 1, { step: 8412, usage: usage(673_337_344, 0.9, [0.88]), attempts: 2, programStarts: 2, failures: 1, generation: 2 }),
    task('evaluator', 0, { step: 8400, usage: usage(404_983_808, 0.41, []) }),
    task('tensorboard', 0, { usage: usage(221_000_000, 0.02, []) }),
  ];
  return {
    status: {
      ...job(tasks, startedAt),
      generations: 2,
      step: 8412,
      checkpointStep: 8400,
      metrics: { 'train/loss': 0.02135, 'train/acc': 0.9922, 'train/examples_per_second': 4309.4, 'test/loss': 0.0397, 'test/acc': 0.9871 },
      tensorboard: { state: 'ready', message: '' },
      master: { node: 'node1.example.com', memoryBytes: 92_000_000, cpuCores: 0.02, latenessMs: 3.4 },
      failure: { role: 'worker', index: 1, ...lost },
      orphanedContainers: [
        {
          role: 'worker',
          index: 1,
          containerId: 'container_1795247621148_0042_01_000003',
          node: 'node3.example.com:8041',
          attached: false,
          mayRunForMs: 24_000,
        },
      ],
      notices: ['The HDFS NameNode did not answer for 4 s; the checkpoint of step 3200 was written at the second try.'],
    },
    entries: runningEntries(startedAt),
    samples: samplesOf(tasks, startedAt + 9_000, now),
    charts: chartsOf(startedAt),
    logs: {
      'worker:0/stdout': lines(400, (line) => `step ${line * 21}  loss ${(2.3 * Math.exp(-line / 60) + 0.02).toFixed(4)}  4.3k examples/s`),
      'worker:0/stderr': '\x1b[33mwarning\x1b[0m: no GPU was found, the CPU is used\nepoch 1\repoch 2\repoch 3\n',
      'worker:0/tony.log': '{"level":"info","time":1795247621956,"msg":"registered"}\n',
      'worker:1/stderr': '',
      'master/tony.log': '{"level":"info","time":1795247621956,"attempt":1,"msg":"registered with the ResourceManager"}\n',
    },
    configuration: CONFIGURATION,
  };
}

function runningEntries(startedAt: number): HistoryEntry[] {
  return [
    at(startedAt + 300, 'master-registered', { message: 'attempt 1, queue research, 0 containers from the previous attempt' }),
    ...started('worker', 0, startedAt + 1_900, 2, 1),
    ...started('worker', 1, startedAt + 2_600, 3, 1),
    at(startedAt + 8_000, 'generation-started', { generation: 1, message: '2 ranked tasks' }),
    ...running('worker', 0, startedAt + 8_100, 2, 1),
    ...running('worker', 1, startedAt + 8_150, 3, 1),
    ...started('evaluator', 0, startedAt + 2_700, 4, 1),
    ...running('evaluator', 0, startedAt + 8_400, 4, 1),
    at(startedAt + 5 * MINUTE, 'task-failed', {
      role: 'worker',
      index: 1,
      generation: 1,
      failure: lost,
    }),
    at(startedAt + 5 * MINUTE + 100, 'program-stopped', {
      role: 'worker',
      index: 0,
      generation: 1,
      containerId: 'container_1795247621148_0042_01_000002',
      message: 'a new generation is being formed',
    }),
    ...started('worker', 1, startedAt + 5 * MINUTE + 9_000, 5, 2),
    at(startedAt + 5 * MINUTE + 16_000, 'generation-started', { generation: 2, message: '2 ranked tasks' }),
    ...running('worker', 0, startedAt + 5 * MINUTE + 16_100, 2, 2),
    ...running('worker', 1, startedAt + 5 * MINUTE + 16_200, 5, 2),
    ...started('tensorboard', 0, startedAt + 20_000, 6, 1),
    ...running('tensorboard', 0, startedAt + 26_000, 6, 1),
  ].sort((a, b) => a.at - b.at);
}

const CONFIGURATION = {
  version: 1,
  applicationId: 'application_1795247621148_0042',
  user: 'alice',
  job: {
    name: 'mnist-convnet',
    framework: 'tfjs',
    processesPerTask: 'auto',
    env: { API_TOKEN: '***', OMP_NUM_THREADS: '4' },
    roles: [
      {
        name: 'worker',
        instances: 2,
        command: 'npm ci\nnode train.ts --epochs 20\n',
        resources: { memoryMb: 1536, vcores: 1, gpus: 1 },
      },
    ],
    tags: [],
  },
};

const NO_CONTAINER: Partial<TaskStatus> = {
  state: 'requested',
  containerId: null,
  node: null,
  nodeHttp: null,
  silentMs: null,
  attempts: 0,
  programStarts: 0,
  generation: 0,
};

export function waitingScene(now = Date.now()): Scene {
  const startedAt = now - 3 * MINUTE;
  const tasks = [task('worker', 0, { state: 'registered', step: 0 }), ...[1, 2, 3].map((index) => task('worker', index, NO_CONTAINER))];
  return {
    status: {
      ...job(tasks, startedAt),
      state: 'waiting',
      message:
        'worker:1-3 got no container (each requests 16 GiB of memory, 4 vcores, 1 yarn.io/gpu; queue research has too little room left: 0 yarn.io/gpu).',
      waitingMs: 172_000,
      generations: 0,
      tensorboard: { state: 'waiting', message: 'TensorBoard is asked for when the job runs.' },
    },
    entries: [
      at(startedAt + 300, 'master-registered', { message: 'attempt 1' }),
      ...started('worker', 0, startedAt + 1_500, 2, 1),
      ...[1, 2, 3].map((index) => at(startedAt + 400, 'task-requested', { role: 'worker', index })),
    ],
  };
}

/** The first stage of a job runs, and the second stage waits for it. */
export function stagedScene(now = Date.now()): Scene {
  const startedAt = now - 3 * MINUTE;
  const waits = { ...NO_CONTAINER, waitsFor: [{ role: 'prepare', state: 'succeeded' as const }] };
  const tasks = [task('prepare', 0, {}), task('worker', 0, waits), task('worker', 1, waits)];
  return {
    status: { ...job(tasks, startedAt), message: 'Role worker waits until prepare has succeeded.' },
    entries: [
      at(startedAt + 300, 'master-registered', { message: 'attempt 1' }),
      at(startedAt + 300, 'role-waits', { role: 'worker', message: 'until prepare has succeeded' }),
      ...started('prepare', 0, startedAt + 1_500, 2, 1),
      ...running('prepare', 0, startedAt + 6_000, 2, 1),
    ],
  };
}

export function failedScene(now = Date.now()): Scene {
  const startedAt = now - 40 * MINUTE;
  const finishedAt = now - 31 * MINUTE;
  const stderr = [
    'train.ts:42',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a program's text
    '    throw new Error(`no file ${name} in ${folder}`);',
    '          ^',
    '',
    'Error: no file train-images.idx3-ubyte in /data/mnist',
    '    at openIdx (train.ts:42:11)',
    '    at main (train.ts:97:24)',
    '    at process.processTicksAndRejections (node:internal/process/task_queues:105:5)',
  ];
  const exit = { code: 1, signal: null };
  const failure = taskFailure({ cause: { kind: 'program', exit }, node: 'node2.example.com:8041', lines: stderr });
  const tasks = [
    task('worker', 0, { state: 'stopped', silentMs: null }),
    task('worker', 1, {
      state: 'failed',
      exit,
      attempts: 4,
      programStarts: 4,
      failures: 4,
      silentMs: null,
      failure,
    }),
    task('evaluator', 0, { state: 'stopped', silentMs: null }),
  ];
  return {
    status: {
      ...job(tasks, startedAt),
      state: 'failed',
      message: `worker:1 failed 4 times, but only 3 restarts are allowed: ${describeFailure(failure, 'worker')}.`,
      finishedAt,
      generations: 3,
      failedTask: { role: 'worker', index: 1 },
      failure: { role: 'worker', index: 1, ...failure },
      tensorboard: { state: 'unavailable', message: 'No node has Python 3.9 or newer.' },
    },
    entries: [
      at(startedAt + 300, 'master-registered', { message: 'attempt 1' }),
      ...started('worker', 0, startedAt + 1_500, 2, 1),
      ...started('worker', 1, startedAt + 1_600, 3, 1),
      ...running('worker', 0, startedAt + 6_000, 2, 1),
      ...running('worker', 1, startedAt + 6_000, 3, 1),
      at(startedAt + 60_000, 'program-ended', { role: 'worker', index: 1, generation: 1, exit }),
      at(startedAt + 60_000, 'task-failed', {
        role: 'worker',
        index: 1,
        generation: 1,
        failure,
      }),
      at(finishedAt, 'job-finished', { state: 'failed' }),
    ],
    logs: { 'worker:1/stderr': stderr.join('\n') },
    charts: { runs: [], message: '' },
  };
}

export function largeScene(now = Date.now()): Scene {
  const startedAt = now - 95 * MINUTE;
  const tasks = largeTasks();
  const entries = [
    at(startedAt + 300, 'master-registered', { message: 'attempt 1, queue research' }),
    ...tasks.flatMap(({ role, index, state }, order) => [
      ...(state === 'requested'
        ? [at(startedAt + 800, 'task-requested', { role, index })]
        : started(role, index, startedAt + 900 + order * 23, order + 2, 1)),
      ...(state === 'running' ? running(role, index, startedAt + 19_000 + order * 7, order + 2, 1) : []),
    ]),
  ].sort((a, b) => a.at - b.at);
  return {
    status: {
      ...job(tasks, startedAt),
      id: 'application_1795247621148_0044',
      name: 'resnet50-imagenet-192-workers',
      state: 'recovering',
      message: 'worker:188 got no container (each requests 16 GiB of memory; queue research is full). worker:187 is starting.',
      waitingMs: 12_000,
      generations: 4,
      masterAttempt: 2,
      step: 120_000,
      checkpointStep: 119_500,
      metrics: { loss: 1.2391, imagesPerSecond: 48_211.4 },
    },
    entries,
    samples: samplesOf(
      tasks.filter(({ state }) => state === 'running'),
      startedAt + 19_000,
      now,
      240,
    ),
    charts: chartsOf(startedAt),
  };
}

const WORKERS = 192;
const STARTING: Readonly<Record<number, TaskState>> = { 187: 'launching', 188: 'requested' };

function largeTasks(): TaskStatus[] {
  return [
    ...Array.from({ length: WORKERS }, (_, index) => {
      const state = STARTING[index] ?? 'running';
      return task('worker', index, {
        state,
        step: state === 'running' ? 120_000 + (index % 7) : 0,
        generation: 4,
        node: state === 'requested' ? null : `gpu-${String(index % 48).padStart(2, '0')}.rack${index % 6}.example.com:8041`,
        usage: state === 'running' ? usage(9.2e9 + (index % 13) * 1.1e8, 3.1 + (index % 5) / 4, [0.86 + (index % 9) / 80]) : null,
        silentMs: state === 'running' ? (index * 137) % 3_000 : null,
        attempts: index % 31 === 5 ? 3 : 1,
        programStarts: index % 31 === 5 ? 3 : 1,
      });
    }),
    ...Array.from({ length: 6 }, (_, index) => task('ps', index, { step: 0, usage: usage(21e9, 6.4, []), generation: 4 })),
    task('evaluator', 0, { step: 119_000, usage: usage(4e9, 1, [0.2]) }),
    task('tensorboard', 0, { usage: usage(3e8, 0.02, []) }),
  ];
}

export function endedScene(now = Date.now()): Scene {
  const scene = runningScene(now - 60 * MINUTE);
  const finishedAt = now - 60 * MINUTE;
  return {
    ...scene,
    status: {
      ...scene.status,
      state: 'succeeded',
      finishedAt,
      failure: null,
      notices: [],
      master: null,
      tasks: scene.status.tasks.map((each) => ({ ...each, state: 'succeeded' as const, usage: null, silentMs: null, exit: succeeded })),
    },
    entries: [
      ...(scene.entries ?? []),
      ...[0, 1].map((index) => at(finishedAt - 1_000, 'program-ended', { role: 'worker', index, generation: 2, exit: succeeded })),
      at(finishedAt - 400, 'program-ended', { role: 'evaluator', index: 0, generation: 1, exit: succeeded }),
      at(finishedAt, 'job-finished', { state: 'succeeded' }),
    ],
  };
}

/** This text sets `document.title` to `hacked` if the page inserts the text as HTML. */
export const HOSTILE = `<img src=x onerror="document.title='hacked'"><script>document.title='hacked'</script>`;

export function hostileScene(now = Date.now()): Scene {
  const scene = runningScene(now);
  const failure = taskFailure({
    cause: { kind: 'launch', message: HOSTILE },
    node: HOSTILE,
    lines: [HOSTILE, `\x1b]0;${HOSTILE}\x07`],
  });
  const tasks = scene.status.tasks.map((each) => ({
    ...each,
    node: HOSTILE,
    nodeHttp: `javascript:alert(1)//${HOSTILE}`,
    failure,
  }));
  return {
    status: {
      ...scene.status,
      name: HOSTILE,
      user: HOSTILE,
      queue: HOSTILE,
      message: HOSTILE,
      notices: [HOSTILE],
      metrics: { [HOSTILE]: 1 },
      checkpointUri: HOSTILE,
      summaryUri: `javascript:${HOSTILE}`,
      failure: { role: 'worker', index: 0, ...failure },
      tensorboard: { state: 'unavailable', message: HOSTILE },
      orphanedContainers: scene.status.orphanedContainers.map((each) => ({ ...each, node: HOSTILE })),
      tasks,
    },
    entries: (scene.entries ?? []).map((entry) => ({
      ...entry,
      event: entry.role === undefined ? HOSTILE : entry.type,
      detail: HOSTILE,
      node: HOSTILE,
    })),
    samples: scene.samples ?? [],
    charts: { runs: [{ name: HOSTILE, scalars: [{ tag: HOSTILE, steps: [1, 2], times: [1, 2], values: [1, null] }] }], message: HOSTILE },
    logs: { 'worker:0/stderr': `${HOSTILE}\n${HOSTILE}\n`, 'worker:0/stdout': HOSTILE },
    configuration: { [HOSTILE]: HOSTILE },
  };
}
