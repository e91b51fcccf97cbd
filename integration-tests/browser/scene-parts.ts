import type { HistoryEntry, JobStatus, TaskStatus, UsageSample } from '../../conf/status/status.ts';
import type { ScalarCharts } from '../../web/job-view.ts';

/** Parts of scenes, in the format of real runs. */

export function job(tasks: readonly TaskStatus[], startedAt: number): JobStatus {
  return {
    id: 'application_1795247621148_0042',
    name: 'mnist-convnet',
    user: 'alice',
    queue: 'research',
    state: 'running',
    message: '',
    waitingMs: null,
    predecessorsEndInMs: null,
    failedTask: null,
    masterAttempt: 1,
    generations: 1,
    createdAt: startedAt,
    startedAt,
    finishedAt: null,
    step: 0,
    metrics: {},
    checkpointStep: 0,
    checkpointUri: 'hdfs://nn.example.com:8020/user/alice/.tony-ts/output/application_1795247621148_0042/checkpoints',
    summaryUri: 'hdfs://nn.example.com:8020/user/alice/.tony-ts/history/application_1795247621148_0042/summaries',
    notices: [],
    failure: null,
    tensorboard: { state: 'off', message: '' },
    elastic: null,
    master: null,
    tasks,
    orphanedContainers: [],
  };
}

export function task(role: string, index: number, changes: Partial<TaskStatus>): TaskStatus {
  return {
    role,
    index,
    state: 'running',
    rank: null,
    generation: 1,
    attempts: 1,
    programStarts: 1,
    failures: 0,
    containerId: `container_1795247621148_0042_01_${String(index + 2).padStart(6, '0')}`,
    node: `node${index + 1}.example.com:8041`,
    nodeHttp: `node${index + 1}.example.com:8042`,
    step: 0,
    metrics: {},
    usage: null,
    silentMs: 420 + index * 310,
    exit: null,
    failure: null,
    ...changes,
  };
}

export function usage(memoryBytes: number, cpuCores: number, utilizations: readonly number[]): TaskStatus['usage'] {
  const gpus = utilizations.map((utilization, index) => ({ index, utilization, memoryUsedBytes: 9e9, memoryTotalBytes: 16e9 }));
  return { memoryBytes: memoryBytes, cpuCores, gpus, stopped: false };
}

export function at(when: number, event: string, details: Omit<HistoryEntry, 'at' | 'type'> = {}): HistoryEntry {
  return { at: when, type: event, ...details };
}

export function started(role: string, index: number, when: number, container: number, node: number): HistoryEntry[] {
  const place = {
    role,
    index,
    containerId: `container_1795247621148_0042_01_${String(container).padStart(6, '0')}`,
    node: `node${node}.example.com:8041`,
  };
  return [
    at(when - 1_100, 'task-requested', { role, index }),
    at(when, 'container-allocated', place),
    at(when + 4_200, 'executor-registered', { ...place, message: '10.1.2.3:42881', program: 'idle' }),
  ];
}

export function running(role: string, index: number, when: number, container: number, generation: number): HistoryEntry[] {
  const containerId = `container_1795247621148_0042_01_${String(container).padStart(6, '0')}`;
  return [at(when, 'program-started', { role, index, generation, containerId, node: `node${generation}.example.com:8041` })];
}

export function samplesOf(tasks: readonly TaskStatus[], from: number, to: number, count = 140): UsageSample[] {
  return Array.from({ length: count }, (_, sample) => ({
    at: Math.round(from + ((to - from) * sample) / (count - 1)),
    tasks: tasks.map(({ role, index, usage }, order) => {
      const wave = Math.sin(sample / 7 + order) * 0.04 + Math.sin(sample * 1.7 + order * 3) * 0.03;
      const warm = 1 - Math.exp(-(sample + 1) / 6);
      return {
        task: `${role}:${index}`,
        step: sample * 60,
        memoryBytes: Math.round((usage?.memoryBytes ?? 1e8) * warm * (1 + wave / 4)),
        cpuCores: (usage?.cpuCores ?? 0.1) * warm * (1 + wave * 2),
        gpuUtilization: usage?.gpus[0] === undefined ? null : Math.min(1, usage.gpus[0].utilization * warm * (1 + wave)),
        gpuMemoryBytes: usage?.gpus[0] === undefined ? null : Math.round(9e9 * warm),
      };
    }),
  }));
}

export function chartsOf(startedAt: number): ScalarCharts {
  const noise = (step: number, seed: number) => Math.sin(step * 12.9898 + seed * 78.233) * 0.5 + Math.sin(step * 4.1 + seed) * 0.5;
  const series = (tag: string, count: number, every: number, seed: number, value: (step: number, noise: number) => number) => {
    const steps = Array.from({ length: count }, (_, index) => (index + 1) * every);
    return {
      tag,
      steps,
      times: steps.map((step) => startedAt / 1000 + 8 + step * 0.08),
      values: steps.map((step) => value(step, noise(step, seed))),
    };
  };
  return {
    runs: [
      {
        name: 'train',
        scalars: [
          series('learning rate', 300, 28, 4, (step) => 0.01 * 0.5 ** Math.floor(step / 2000)),
          series('loss', 420, 20, 1, (step, jitter) => 2.3 * Math.exp(-step / 900) + 0.05 + jitter * 0.12 * Math.exp(-step / 4000)),
          series('acc', 420, 20, 2, (step, jitter) => Math.min(1, 0.99 - 0.88 * Math.exp(-step / 700) + jitter * 0.02)),
          series('examples_per_second', 420, 20, 3, (step, jitter) => (step < 60 ? 98 : 4200 + jitter * 320)),
        ],
      },
      {
        name: 'evaluator',
        scalars: [
          series('loss', 42, 200, 6, (step, jitter) => 2.1 * Math.exp(-step / 1000) + 0.09 + jitter * 0.03),
          series('acc', 42, 200, 7, (step, jitter) => Math.min(1, 0.985 - 0.8 * Math.exp(-step / 800) + jitter * 0.004)),
        ],
      },
    ],
    message: '',
  };
}

export function lines(count: number, line: (index: number) => string): string {
  return Array.from({ length: count }, (_, index) => `${line(index + 1)}\n`).join('');
}
