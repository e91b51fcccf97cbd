import { DEFAULT_CHECKPOINT_STEPS } from '../../conf/values/checkpoint-steps.ts';
import { MEBIBYTE, parseDuration } from '../../conf/values/units.ts';
import { storageAlone, storageOfJob } from '../../contract/process/open-storage.ts';
import { openReport } from '../../contract/process/report.ts';
import { readTask } from '../../contract/process/task.ts';
import { type Member, type Report, rankNames, type TaskContext } from '../../contract/process/task-context.ts';
import {
  checkOptionValues,
  isNotNegative,
  isObject,
  isOptions,
  isPositiveNumber,
  isTextNotEmpty,
  isWhole,
  type OptionRule,
  type OptionRules,
} from '../../platform/check-options.ts';
import { TonyError } from '../../platform/errors.ts';
import { Secret } from '../../platform/secret.ts';
import { hasGpu, loadBackend } from '../backend/backend.ts';
import { CheckpointOrder } from '../checkpoint/checkpoint-order.ts';
import { serveParameters, servesParameters } from '../parameter-server/server/serve.ts';
import { ParameterServerWorker } from '../parameter-server/worker/parameter-server-worker.ts';
import { reportPermanentFailures } from '../process/permanent-failure.ts';
import { uriOf } from '../process/uri-of.ts';
import { Ring } from '../ring/ring.ts';
import type { RingTimeouts } from '../ring/ring-options.ts';
import { Cluster } from './cluster.ts';

export interface JoinOptions {
  /** A standalone program's input folders, as paths or URIs by name. A job uses `data` in job.yaml instead. */
  readonly data?: Readonly<Record<string, string>>;
  /** A standalone program's checkpoints. By default, the program does not write checkpoints. A job uses `checkpoint` in job.yaml instead. */
  readonly checkpoint?: JoinCheckpoint;
  /** A standalone program's summary folder. By default, the program does not write summaries. */
  readonly summaryDir?: string;
  /** A standalone program's output folder. */
  readonly outputDir?: string;
  readonly timeouts?: Partial<RingTimeouts>;
}

/** How a standalone program writes checkpoints, with the keys of `checkpoint` in job.yaml. */
export interface JoinCheckpoint {
  /** The checkpoint folder, as a path or URI. */
  readonly dir: string;
  /** The number of training steps between checkpoints. Default: 100, or none if `every` is set. */
  readonly everySteps?: number;
  /** The time between checkpoints, such as `10m`. With `everySteps` too, the next checkpoint is written when the first of both is due. */
  readonly every?: string;
  /** The number of checkpoints to keep. Default: 3. */
  readonly keep?: number;
}

const isDuration: OptionRule = (value) =>
  typeof value === 'string' && (parseDuration(value) ?? 0) > 0
    ? null
    : 'a duration such as 10m (for a number of training steps, write everySteps)';

const OPTIONS: OptionRules<JoinOptions> = {
  data: isObject,
  checkpoint: isOptions<JoinCheckpoint>({ dir: isTextNotEmpty, everySteps: isWhole(1), every: isDuration, keep: isWhole(1) }),
  summaryDir: isTextNotEmpty,
  outputDir: isTextNotEmpty,
  timeouts: isOptions<RingTimeouts>({ joinMs: isPositiveNumber, silenceMs: isPositiveNumber, graceMs: isNotNegative }),
};

/**
 * Joins the job: loads TensorFlow.js with the fastest available backend and connects to the other ranks. Outside a job, the process is the
 * only rank. In a parameter server task, `join` serves the workers until the task ends, and never returns.
 * @throws TonyError BACKEND_NOT_FOUND, RING_JOIN_FAILED, TASK_FILE_INVALID.
 */
export async function join(options: JoinOptions = {}): Promise<Cluster> {
  checkOptionValues('join', options, OPTIONS);
  const task = readTask();
  // A timeout that is undefined counts as missing, and must not replace the default.
  const timeouts = Object.fromEntries(Object.entries(options.timeouts ?? {}).filter(([, ms]) => ms !== undefined));
  return task === null ? await joinAlone({ ...options, timeouts }) : await joinJob(task, { ...options, timeouts });
}

async function joinAlone(options: JoinOptions): Promise<Cluster> {
  const backend = await loadBackend(1);
  const { checkpoint, summaryDir, outputDir, data = {} } = options;
  return new Cluster({
    tf: backend.tf,
    backend: backend.name,
    ring: await openRing(null, options, () => {}),
    wire: 'float32',
    servers: null,
    ranked: true,
    role: 'worker',
    index: 0,
    jobId: '',
    jobName: '',
    generation: 1,
    data: Object.fromEntries(Object.entries(data).map(([name, place]) => [name, uriOf(place)])),
    storage: await storageAlone(),
    checkpoint: checkpoint === undefined ? null : checkpointAlone(checkpoint),
    summaryDir: summaryDir === undefined ? null : uriOf(summaryDir),
    outputDir: outputDir === undefined ? null : uriOf(outputDir),
    instances: 1,
    checkpointOrder: new CheckpointOrder(null),
    memoryMb: null,
    report: () => {},
  });
}

function checkpointAlone({ dir, everySteps, every, keep = 3 }: JoinCheckpoint) {
  if (typeof dir !== 'string') {
    throw new TonyError('USAGE', 'join: checkpoint has no dir', { hint: "Pass the folder: join({ checkpoint: { dir: 'checkpoints' } })." });
  }
  const everyMs = every === undefined ? null : (parseDuration(every) ?? null);
  return { dir: uriOf(dir), everySteps: everySteps ?? (everyMs === null ? DEFAULT_CHECKPOINT_STEPS : null), everyMs, keep };
}

async function joinJob(task: TaskContext, options: JoinOptions): Promise<Cluster> {
  const report = openReport(task.reportFile);
  reportPermanentFailures(report);
  const own = task.members.find(({ role, index }) => role === task.role && index === task.index);
  const neighbours = task.members.filter((member) => member.host === own?.host && computes(task, member)).length;
  const backend = await loadBackend(Math.max(1, neighbours));
  if (hasGpu() && backend.name !== 'gpu') {
    const message = `${task.role}:${task.index} has a GPU but computes on the CPU (backend ${backend.name}): set \`runtime: gpu\` in job.yaml`;
    report({ type: 'notice', message });
  }
  const storage = storageOfJob(task);
  if (servesParameters(task)) {
    const { joinMs } = options.timeouts ?? {};
    return await serveParameters(task, { tf: backend.tf, storage, report, ...(joinMs === undefined ? {} : { timeouts: { joinMs } }) });
  }
  const servers =
    task.strategy.type === 'parameter-server' && task.taskRank !== null
      ? openServers(task, task.strategy.staleness, options, report)
      : null;
  return new Cluster({
    tf: backend.tf,
    backend: backend.name,
    ring: await openRing(servers === null ? task : null, options, report),
    wire: task.wire.dtype,
    servers,
    ranked: task.taskRank !== null,
    role: task.role,
    index: task.index,
    jobId: task.jobId,
    jobName: task.jobName,
    generation: task.generation,
    data: task.data,
    storage,
    checkpoint: task.checkpoint,
    summaryDir: task.summaryDir,
    outputDir: task.outputDir,
    instances: task.instances,
    checkpointOrder: new CheckpointOrder(task.checkpointOrder),
    // `fit` can estimate its memory only for the native backend, and only without parameter servers, which would hold part of the training
    // state.
    memoryMb: backend.name === 'native' && servers === null && task.memoryBytes !== null ? task.memoryBytes / MEBIBYTE : null,
    report,
  });
}

/** Returns true for ranks and parameter servers. Only these tasks need a share of their node's cores. */
function computes({ parameterServers }: TaskContext, { taskRank, host, port }: Member): boolean {
  return taskRank !== null || parameterServers.some((server) => server.host === host && server.port === port);
}

/** Creates the parameter server client, which connects when a training phase, a custom step or a broadcast starts. */
function openServers(
  task: TaskContext,
  staleness: number | null,
  options: JoinOptions,
  report: (report: Report) => void,
): ParameterServerWorker {
  const { taskRank: rank, taskWorldSize: worldSize, generation, parameterServers, ringKey, wire } = task;
  if (rank === null || parameterServers.length === 0) {
    throw new TonyError('TASK_FILE_INVALID', `generation ${generation} has no parameter servers`);
  }
  return new ParameterServerWorker({
    ...{ rank, worldSize, generation, staleness },
    security: wire.security,
    key: new Secret(Buffer.from(ringKey, 'base64')),
    addresses: parameterServers,
    onLost: (server, cause) => {
      process.stderr.write(`tony-ts: parameter server ${server} ${cause}; waiting for the job to replace it\n`);
      // In reports, parameter servers are numbered after the highest rank.
      report({ type: 'peer-lost', taskRank: worldSize + server });
    },
    ...(options.timeouts === undefined ? {} : { timeouts: options.timeouts }),
  });
}

async function openRing(task: TaskContext | null, options: JoinOptions, report: (report: Report) => void): Promise<Ring> {
  const none = { key: new Secret(new Uint8Array(0)), listener: { fd: null, host: '127.0.0.1', port: 0 }, addresses: [], onLost: () => {} };
  if (task === null || task.taskRank === null || task.taskWorldSize === 1) {
    return await Ring.join({ ...none, rank: 0, worldSize: 1, generation: task?.generation ?? 1 });
  }
  const ranked = task.members.filter(({ taskRank }) => taskRank !== null).sort((a, b) => (a.taskRank ?? 0) - (b.taskRank ?? 0));
  if (task.listener === null || ranked.length !== task.taskWorldSize || ranked.some(({ taskRank }, at) => taskRank !== at)) {
    throw new TonyError(
      'TASK_FILE_INVALID',
      `the task file's member list does not match the ${task.taskWorldSize} ranks expected in generation ${task.generation}`,
    );
  }
  const names = rankNames(task);
  return await Ring.join({
    rank: task.taskRank,
    worldSize: task.taskWorldSize,
    generation: task.generation,
    key: new Secret(Buffer.from(task.ringKey, 'base64')),
    security: task.wire.security,
    listener: task.listener,
    addresses: ranked,
    names,
    onLost: (rank, cause) => {
      process.stderr.write(`tony-ts: ${names[rank]} ${cause}; waiting for the job to replace it\n`);
      report({ type: 'peer-lost', taskRank: rank });
    },
    ...(options.timeouts === undefined ? {} : { timeouts: options.timeouts }),
  });
}
