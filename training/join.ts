import { TonyError } from '../conf/errors.ts';
import type { Strategy } from '../conf/job.ts';
import { Secret } from '../conf/secret.ts';
import { hasGpu, loadBackend } from './backend.ts';
import { Cluster, uriOf } from './cluster.ts';
import { storageAlone, storageOfJob } from './open-storage.ts';
import { ParameterServerWorker } from './parameter-server/parameter-server-worker.ts';
import { serveParameters, servesParameters } from './parameter-server/serve.ts';
import { openReport } from './report.ts';
import { Ring, type RingTimeouts } from './ring.ts';
import { readTask } from './task.ts';
import type { Member, Report, TaskContext } from './task-context.ts';

export interface JoinOptions {
  /** Where data lies, by name, when the program runs by itself: paths or URIs. In a job those of job.yaml count. */
  readonly data?: Readonly<Record<string, string>>;
  /** When the program runs by itself: where `fit` keeps checkpoints, and after how many steps; none unless told. */
  readonly checkpointDir?: string;
  readonly checkpointEverySteps?: number;
  /** When the program runs by itself: where summaries go; nowhere unless told. */
  readonly summaryDir?: string;
  /** When the program runs by itself: the folder of its results. */
  readonly outputDir?: string;
  readonly timeouts?: Partial<RingTimeouts>;
}

/**
 * Takes this process's place in its job: loads TensorFlow.js with the fastest backend that there is, and connects to the other ranks.
 * Without TONY_TASK_FILE, which an executor sets, it is a world of one. In a parameter server's task it does not return: it serves.
 *
 * @throws TonyError BACKEND_MISSING, RING_JOIN_FAILED, TASK_FILE_INVALID.
 */
export async function join(options: JoinOptions = {}): Promise<Cluster> {
  const task = readTask();
  return task === null ? await joinAlone(options) : await joinJob(task, options);
}

async function joinAlone(options: JoinOptions): Promise<Cluster> {
  const backend = await loadBackend(1);
  const { checkpointDir, summaryDir, outputDir, data = {} } = options;
  return new Cluster({
    tf: backend.tf,
    backend: backend.name,
    ring: await openRing(null, options, () => {}),
    wire: 'float32',
    servers: null,
    ranked: true,
    role: 'worker',
    index: 0,
    applicationId: '',
    jobName: '',
    generation: 1,
    data: Object.fromEntries(Object.entries(data).map(([name, place]) => [name, uriOf(place)])),
    storage: await storageAlone(),
    checkpoint:
      checkpointDir === undefined ? null : { dir: uriOf(checkpointDir), everySteps: options.checkpointEverySteps ?? 100, keep: 3 },
    summaryDir: summaryDir === undefined ? null : uriOf(summaryDir),
    outputDir: outputDir === undefined ? null : uriOf(outputDir),
    roleSize: 1,
    report: () => {},
  });
}

async function joinJob(task: TaskContext, options: JoinOptions): Promise<Cluster> {
  const report = openReport(task.reportFile);
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
    task.strategy.type === 'parameter-server' && task.rank !== null ? openServers(task, task.strategy, options, report) : null;
  return new Cluster({
    tf: backend.tf,
    backend: backend.name,
    ring: await openRing(servers === null ? task : null, options, report),
    wire: task.strategy.type === 'all-reduce' ? task.strategy.wire : 'float32',
    servers,
    ranked: task.rank !== null,
    role: task.role,
    index: task.index,
    applicationId: task.applicationId,
    jobName: task.jobName,
    generation: task.generation,
    data: task.data,
    storage,
    checkpoint: task.checkpoint,
    summaryDir: task.summaryDir,
    outputDir: task.outputDir,
    roleSize: task.roleSize,
    report,
  });
}

/** With a rank, or as a parameter server. */
function computes({ parameterServers }: TaskContext, { rank, host, port }: Member): boolean {
  return rank !== null || parameterServers.some((server) => server.host === host && server.port === port);
}

/** Connections are made when there is something to train. */
function openServers(
  task: TaskContext,
  { staleness }: Extract<Strategy, { type: 'parameter-server' }>,
  options: JoinOptions,
  report: (report: Report) => void,
): ParameterServerWorker {
  const { rank, worldSize, generation, parameterServers, ringKey } = task;
  if (rank === null || parameterServers.length === 0) {
    throw new TonyError('TASK_FILE_INVALID', `there are no parameter servers in generation ${generation}`);
  }
  return new ParameterServerWorker({
    ...{ rank, worldSize, generation, staleness },
    key: new Secret(Buffer.from(ringKey, 'base64')),
    addresses: parameterServers,
    onLost: (server, cause) => {
      process.stderr.write(`tony-ts: parameter server ${server} ${cause}; waiting for the job to replace it\n`);
      // Servers are counted on from the ranks.
      report({ type: 'peer-lost', rank: worldSize + server });
    },
    ...(options.timeouts === undefined ? {} : { timeouts: options.timeouts }),
  });
}

async function openRing(task: TaskContext | null, options: JoinOptions, report: (report: Report) => void): Promise<Ring> {
  const none = { key: new Secret(new Uint8Array(0)), listener: { fd: null, host: '127.0.0.1', port: 0 }, addresses: [], onLost: () => {} };
  if (task === null || task.rank === null || task.worldSize === 1) {
    return await Ring.join({ ...none, rank: 0, worldSize: 1, generation: task?.generation ?? 1 });
  }
  const ranked = task.members.filter(({ rank }) => rank !== null).sort((a, b) => (a.rank ?? 0) - (b.rank ?? 0));
  if (task.listener === null || ranked.length !== task.worldSize || ranked.some(({ rank }, position) => rank !== position)) {
    throw new TonyError('TASK_FILE_INVALID', `the members are not the ${task.worldSize} ranks of generation ${task.generation}`);
  }
  return await Ring.join({
    rank: task.rank,
    worldSize: task.worldSize,
    generation: task.generation,
    key: new Secret(Buffer.from(task.ringKey, 'base64')),
    listener: task.listener,
    addresses: ranked,
    onLost: (rank, cause) => {
      process.stderr.write(`tony-ts: rank ${rank} ${cause}; waiting for the job to replace it\n`);
      report({ type: 'peer-lost', rank });
    },
    ...(options.timeouts === undefined ? {} : { timeouts: options.timeouts }),
  });
}
