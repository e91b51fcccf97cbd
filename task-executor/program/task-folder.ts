import { existsSync } from 'node:fs';
import { cp, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { CONTAINER_LAYOUT, type Job } from '../../conf/job.ts';
import { processesOf } from '../../conf/processes.ts';
import type { Framework } from '../../conf/values/frameworks.ts';
import { AUTHORITIES } from '../../hadoop/configuration/authorities.ts';
import { shellWord } from '../../platform/text/shell-word.ts';
import type { MemberMessage } from '../../protos/executor-protocol.ts';
import { programEnvironment, runtimeEnvironment } from '../../training/process/program-environment.ts';
import type { Member, TaskContext } from '../../training/process/task-context.ts';
import { type FrameworkEnvironment, frameworkEnvironment, inheritsPort } from '../frameworks/framework-environment.ts';
import type { GangPlace } from '../frameworks/gang.ts';
import { runsMpi } from '../frameworks/mpi.ts';
import { nodeCommand } from '../frameworks/node-command.ts';
import { interfaceOfHost } from '../horovod/network-interface.ts';
import { prepareMpi } from '../mpi/prepare-mpi.ts';
import { type Activation, activateEnvironment } from '../python/activate-environment.ts';
import { EXECUTOR_ENVIRONMENT, type ExecutorSettings } from '../settings/settings.ts';
import { authorityEnvironment } from './authority-files.ts';
import { homeFolder } from './home-folder.ts';
import type { ProcessPlan } from './process-launcher.ts';
import { LISTENER_FD } from './program.ts';
import { createProgramFolder, emptyTemporaryFolder } from './program-folder.ts';
import { userEnvironment } from './user-environment.ts';

/** The folder, files and environment for one run of the user's program. */
export interface PreparedRun {
  readonly folder: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly reportFile: string;
  /** Path of the file that tells the program to store a checkpoint. See TaskContext. */
  readonly checkpointOrder: string;
  /** Null for a task without a rank. */
  readonly rank: number | null;
  /** Bash command to run. */
  readonly command: string;
}

export interface RunRequest {
  /** The user's command. */
  readonly command: string;
  readonly generation: number;
  readonly members: readonly MemberMessage[];
  readonly port: number;
  /** The services socket's folder, or null if there is none. */
  readonly services: string | null;
  /** Port on 127.0.0.1 on which the relay to the rendezvous store listens, or 0 if the framework does not use the store. */
  readonly rendezvousPort: number;
  readonly jobEnvironment: Readonly<Record<string, string>>;
}

/**
 * Writes the task file and creates the program's working directory. Removes the previous run's files and folders, because an old program
 * that is still running could write there.
 */
export async function prepareRun(
  settings: ExecutorSettings,
  container: Readonly<Record<string, string | undefined>>,
  request: RunRequest,
  onLeftOver: (folder: string, error: unknown) => void,
): Promise<PreparedRun> {
  const { folder } = settings;
  const { generation } = request;
  const taskFile = path.join(folder, `task-${generation}.json`);
  const reportFile = path.join(folder, `report-${generation}.jsonl`);
  const checkpointOrder = path.join(folder, `checkpoint-order-${generation}`);
  const context = taskContext(settings, request, { reportFile, checkpointOrder });
  const before = [`task-${generation - 1}.json`, `report-${generation - 1}.jsonl`, `checkpoint-order-${generation - 1}`].map((name) =>
    path.join(folder, name),
  );
  const old = path.join(folder, `services-${generation - 1}`);
  await Promise.all([taskFile, reportFile, checkpointOrder, ...before, old].map((file) => rm(file, { force: true, recursive: true })));
  await Promise.all([
    // Private permissions, because the file contains the ring key and the access keys for s3:// URIs.
    writeFile(taskFile, `${JSON.stringify(context)}\n`, { mode: 0o600, flag: 'wx' }),
    writeFile(reportFile, '', { mode: 0o600, flag: 'wx' }),
  ]);
  const { framework, python } = settings.frozen.job;
  const place = gangPlace(settings, context);
  const ofFramework = frameworkEnvironment(framework, place, {
    rendezvousPort: request.rendezvousPort,
    interface: framework === 'horovod' ? await interfaceOfHost(settings.host) : null,
  });
  // Hadoop clients read this variable too.
  const tokens = await settings.tokens.writeForProgram();
  const own = {
    // Otherwise, Python buffers its output, because the output is not a terminal. The user would see it late, or never after a SIGKILL.
    PYTHONUNBUFFERED: '1',
    ...container,
    ...(container.HOME !== undefined && { HOME: await homeFolder(folder, container.HOME) }),
    TMPDIR: await emptyTemporaryFolder(folder, onLeftOver),
  };
  const environment = {
    ...userEnvironment(own, request.jobEnvironment, { ...context, taskFile }, ofFramework),
    ...(tokens !== null && { [EXECUTOR_ENVIRONMENT.credentials]: tokens }),
  };
  const bundles = path.join(folder, CONTAINER_LAYOUT.bundles);
  const runtime = path.join(folder, CONTAINER_LAYOUT.runtime);
  const source = path.join(folder, CONTAINER_LAYOUT.source);
  const withSoftware = {
    ...environment,
    ...(await authorityEnvironment(folder, authoritiesOf(settings), environment)),
    ...softwareEnvironment(framework, bundles, existsSync(runtime) ? runtime : null, environment),
    ...(await pythonEnvironment(folder, bundles, environment)),
  };
  const activation = python.type === 'system' ? null : await activateEnvironment(folder, withSoftware);
  return {
    folder: await createProgramFolder(folder, generation, existsSync(source) ? source : null, onLeftOver),
    environment: { ...withSoftware, ...(typeof activation === 'object' && activation?.variables) },
    reportFile,
    checkpointOrder,
    rank: context.rank,
    command: await commandFor(settings, request, { ...place, rank: context.rank }, ofFramework, activation),
  };
}

function authoritiesOf({ frozen: { cluster } }: ExecutorSettings): string {
  return cluster.kind === 'yarn' ? (cluster.hadoop[AUTHORITIES] ?? '') : '';
}

function gangPlace({ frozen, role }: ExecutorSettings, context: TaskContext): GangPlace {
  const { processesPerTask, roles } = frozen.job;
  const members = context.members.map((member) => {
    const ofMember = roles.find(({ name }) => name === member.role);
    return { ...member, processes: ofMember === undefined ? 1 : processesOf(processesPerTask, ofMember) };
  });
  return { ...context, maxRestarts: role.restart.maxRestarts, members };
}

/**
 * Returns the user's command, or, for a task with several processes, the launcher's command.
 * @param activation a message if the Python environment does not work on this node
 */
async function commandFor(
  { folder, frozen }: ExecutorSettings,
  request: RunRequest,
  place: GangPlace & { readonly rank: number | null },
  { processes }: FrameworkEnvironment,
  activation: Activation | string | null,
): Promise<string> {
  if (typeof activation === 'string') {
    // A shell exits with 127 if it cannot find a program.
    return `echo ${shellWord(activation)} >&2; exit 127`;
  }
  const { generation } = request;
  const setup = activation === null || activation.setup === '' ? '' : `${activation.setup}\n`;
  const command = `${setup}${request.command}`;
  if (frozen.job.framework === 'mpi' && runsMpi(place)) {
    // Processes started by mpirun inherit the agents' environment.
    return `${setup}${await prepareMpi(folder, place, request.command)}`;
  }
  if (processes.length === 1) {
    return command;
  }
  const plan: ProcessPlan = {
    command,
    processes: processes.map((environment) => ({ prefix: `[rank ${environment.RANK ?? environment.HOROVOD_RANK}] `, environment })),
  };
  const file = path.join(folder, `processes-${generation}.json`);
  await writeFile(file, JSON.stringify(plan), { mode: 0o600 });
  return `exec ${nodeCommand(path.join(folder, CONTAINER_LAYOUT.bundles, 'process-launcher.mjs'), file)}`;
}

/** Returns the variables that a program uses to find the tony-ts software. */
function softwareEnvironment(
  framework: Framework,
  bundles: string,
  runtime: string | null,
  environment: Readonly<Record<string, string>>,
): Record<string, string> {
  if (framework !== 'tfjs' && framework !== 'none') {
    return runtimeEnvironment(runtime, environment);
  }
  return existsSync(path.join(bundles, 'register.mjs')) ? programEnvironment(bundles, runtime, environment) : {};
}

/**
 * Copies the `tony` Python package into the container, and returns the variable that Python uses to find the package. Python writes
 * compiled files into the package's folder, so this folder must not be in the NodeManager's cache.
 */
async function pythonEnvironment(
  folder: string,
  bundles: string,
  environment: Readonly<Record<string, string>>,
): Promise<Record<string, string>> {
  const source = path.join(bundles, CONTAINER_LAYOUT.python);
  if (!existsSync(source)) {
    return {};
  }
  const target = path.join(folder, CONTAINER_LAYOUT.python);
  await cp(source, target, { recursive: true, dereference: true });
  return { PYTHONPATH: [target, environment.PYTHONPATH].filter((each) => each !== undefined && each !== '').join(path.delimiter) };
}

function taskContext(
  { frozen, role, index, host, ringKey, s3 }: ExecutorSettings,
  { generation, members, port, services }: RunRequest,
  { reportFile, checkpointOrder }: { readonly reportFile: string; readonly checkpointOrder: string },
): TaskContext {
  // Copy only these fields, because the decoder adds further fields that the task file must not contain.
  const everybody: Member[] = members.map((each) => ({
    role: each.role,
    index: each.index,
    rank: each.rank ?? null,
    host: each.host,
    port: each.port,
  }));
  const self = everybody.find((member) => member.role === role.name && member.index === index);
  return {
    version: 1,
    applicationId: frozen.applicationId,
    jobName: frozen.job.name,
    role: role.name,
    index,
    roleSize: role.instances,
    rank: self?.rank ?? null,
    worldSize: everybody.filter(({ rank }) => rank !== null).length,
    generation,
    members: everybody,
    listener: inheritsPort(frozen.job, role) ? { fd: LISTENER_FD, host, port } : null,
    ringKey: Buffer.from(ringKey.reveal()).toString('base64'),
    strategy: frozen.job.strategy,
    parameterServers: parameterServers(frozen.job, everybody),
    checkpoint: { dir: frozen.checkpointDir, everySteps: frozen.job.checkpoint.everySteps, keep: frozen.job.checkpoint.keep },
    summaryDir: frozen.summaryDir,
    outputDir: frozen.outputDir,
    data: frozen.data,
    user: frozen.user,
    hadoop: frozen.cluster.kind === 'yarn' ? frozen.cluster.hadoop : null,
    s3: s3 && Buffer.from(s3.reveal()).toString('utf8'),
    reportFile,
    checkpointOrder,
    services,
    memoryMb: frozen.cluster.kind === 'yarn' ? role.resources.memoryMb : null,
  };
}

function parameterServers(job: Job, members: readonly Member[]): { host: string; port: number }[] {
  const roles = new Set(job.roles.filter((role) => role.servesParameters).map(({ name }) => name));
  return members
    .filter((member) => roles.has(member.role))
    .sort((a, b) => a.index - b.index)
    .map(({ host, port }) => ({ host, port }));
}
