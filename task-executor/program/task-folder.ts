import { constants, existsSync } from 'node:fs';
import { access, chmod, cp, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { rootCertificates } from 'node:tls';
import type { Framework, FrameworkEnvironment, FrameworkTask } from '../../conf/frameworks/framework.ts';
import { type ProcessRank, processRanks } from '../../conf/frameworks/gang.ts';
import type { FrameworkName } from '../../conf/frameworks/names.ts';
import { nodeCommand } from '../../conf/frameworks/node-command.ts';
import { frameworkOf } from '../../conf/frameworks.ts';
import { CONTAINER_LAYOUT, type Job, type Role } from '../../conf/job.ts';
import { processesOf } from '../../conf/processes.ts';
import { MEBIBYTE } from '../../conf/values/units.ts';
import { programEnvironment, runtimeEnvironment } from '../../contract/process/program-environment.ts';
import type { Member, TaskContext } from '../../contract/process/task-context.ts';
import { TASK_ENVIRONMENT } from '../../contract/process/task-environment.ts';
import { AUTHORITIES } from '../../hadoop/configuration/authorities.ts';
import { copyTree } from '../../platform/files/copy-tree.ts';
import { ifMissing } from '../../platform/files/if-missing.ts';
import { restoreNames } from '../../platform/files/portable-names.ts';
import { shellWord } from '../../platform/text/shell-word.ts';
import type { TonyMessages } from '../../protos/tony-messages.ts';
import { type Activation, activateEnvironment } from '../python/activate-environment.ts';
import { LISTENER_FD } from './program.ts';
import { EXECUTOR_ENVIRONMENT, type ExecutorSettings } from './settings.ts';

type TaskIdentity = Pick<TaskContext, 'jobId' | 'role' | 'index' | 'taskRank' | 'generation' | 'checkpoint'>;

/** Contents of the input file of process-launcher.ts. */
export interface ProcessPlan {
  /** A bash command. */
  readonly command: string;
  /** The prefix for each process's output lines, and the process's additional environment variables. */
  readonly processes: readonly { readonly prefix: string; readonly environment: Readonly<Record<string, string>> }[];
}

/** Variables that give access to the executor's credentials and connections. The program must not inherit them. */
const KEPT_BACK: ReadonlySet<string> = new Set([EXECUTOR_ENVIRONMENT.credentials, EXECUTOR_ENVIRONMENT.master]);

/**
 * Returns the environment for the user's program. Later sources take precedence: the container's variables, the framework's defaults, the
 * variables that the job and the role set, the framework's variables for the first process, and the task's identity.
 */
export function userEnvironment(
  container: Readonly<Record<string, string | undefined>>,
  job: Readonly<Record<string, string>>,
  task: TaskIdentity & { readonly taskFile: string },
  framework: FrameworkEnvironment,
): Record<string, string> {
  const inherited = Object.entries(container).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && !KEPT_BACK.has(entry[0]),
  );
  return {
    ...Object.fromEntries(inherited),
    ...framework.defaults,
    ...job,
    ...framework.processes[0],
    [TASK_ENVIRONMENT.taskFile]: task.taskFile,
    [TASK_ENVIRONMENT.jobId]: task.jobId,
    [TASK_ENVIRONMENT.role]: task.role,
    [TASK_ENVIRONMENT.index]: String(task.index),
    [TASK_ENVIRONMENT.generation]: String(task.generation),
    [TASK_ENVIRONMENT.checkpointDir]: task.checkpoint.dir,
    ...(task.taskRank !== null && { [TASK_ENVIRONMENT.taskRank]: String(task.taskRank) }),
  };
}

/*
 * Each run of the user's program gets its own working directory, `<container>/program/<generation>`. This is a copy of
 * `<container>/source`, which is a link into the NodeManager's cache. The user's containers and jobs on that node share the cache, so a
 * program that wrote there would change the files of later jobs. Files and archives that job.yaml lists may be large, so the working
 * directory contains only links to them.
 */

/**
 * Creates a generation's working directory, and removes the working directories of earlier generations.
 * @param container absolute path of the container's working directory
 * @param source absolute path of the localised source, or null for an empty working directory
 * @param onLeftOver receives each earlier directory that cannot be removed; YARN removes the directory with the container
 * @returns absolute path of the new working directory
 */
export async function createProgramFolder(
  container: string,
  generation: number,
  source: string | null,
  onLeftOver: (folder: string, error: unknown) => void,
): Promise<string> {
  const parent = path.join(container, CONTAINER_LAYOUT.program);
  const folder = path.join(parent, String(generation));
  await mkdir(parent, { recursive: true, mode: 0o700 });
  const earlier = (await readdir(parent)).map((name) => path.join(parent, name));
  await Promise.all(earlier.map((each) => removeTree(each).catch((error: unknown) => onLeftOver(each, error))));
  await mkdir(folder, { mode: 0o700 });
  if (source !== null) {
    await copyTree(source, folder);
    await restoreNames(folder);
  }
  const files = path.join(container, CONTAINER_LAYOUT.files);
  for (const name of await readdir(files).catch(ifMissing([]))) {
    await symlink(path.relative(folder, path.join(files, name)), path.join(folder, name));
  }
  return folder;
}

/**
 * Empties the folder for the program's temporary files, which YARN removes with the container, even if the program is killed.
 * @param container absolute path of the container's working directory, which is also the executor's
 * @returns the value of TMPDIR. The path leads through /proc, because programs create Unix sockets in TMPDIR, the kernel limits a socket's
 * path to 108 bytes, and the path of a container is longer than that.
 */
async function emptyTemporaryFolder(container: string, onLeftOver: (folder: string, error: unknown) => void): Promise<string> {
  const folder = path.join(container, CONTAINER_LAYOUT.temporary);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const earlier = (await readdir(folder)).map((name) => path.join(folder, name));
  await Promise.all(earlier.map((each) => removeTree(each).catch((error: unknown) => onLeftOver(each, error))));
  return `/proc/${process.pid}/cwd/${CONTAINER_LAYOUT.temporary}`;
}

/** Removes a folder. If this fails, restores the write permission, which a program may have removed, and tries again. */
async function removeTree(folder: string): Promise<void> {
  try {
    await rm(folder, { recursive: true, force: true });
  } catch {
    await makeWritable(folder);
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

async function makeWritable(folder: string): Promise<void> {
  await chmod(folder, 0o700);
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    if (entry.isDirectory()) {
      await makeWritable(path.join(folder, entry.name));
    }
  }
}

/**
 * Returns the home folder for the user's program. YARN sets HOME to `/home/` (`yarn.nodemanager.user-home-dir`), where users cannot create
 * files. Programs that store settings or caches in HOME would fail, so they get a home folder inside the container.
 * @param container absolute path of the container's working directory
 * @param home value of HOME in the container
 */
export async function homeFolder(container: string, home: string): Promise<string> {
  try {
    await access(home, constants.W_OK | constants.X_OK);
    return home;
  } catch {
    const own = path.join(container, CONTAINER_LAYOUT.home);
    await mkdir(own, { recursive: true, mode: 0o700 });
    return own;
  }
}

/** Files that contain the operating system's certificate authorities on Debian and Alpine, Red Hat, and SUSE. */
const SYSTEM_BUNDLES = ['/etc/ssl/certs/ca-certificates.crt', '/etc/pki/tls/certs/ca-bundle.crt', '/etc/ssl/ca-bundle.pem'];
/** Contains only the cluster's authorities, because Node.js adds this file to its own authorities. */
const ADDITIONAL = 'cluster-authorities.pem';
/** Contains all authorities, for programs that replace their own authorities with this file. */
const ALL = 'all-authorities.pem';
/** Environment variables that tell OpenSSL, curl, and the Python packages requests and botocore which file contains all authorities. */
const REPLACING = ['SSL_CERT_FILE', 'REQUESTS_CA_BUNDLE', 'CURL_CA_BUNDLE'];

/**
 * Writes the cluster's certificate authorities to files in the container's folder. Returns the environment variables that make programs
 * trust these authorities, except those that `environment` already sets.
 * @param authorities authorities in PEM format, or an empty string if the cluster does not have its own
 */
export async function authorityEnvironment(
  folder: string,
  authorities: string,
  environment: Readonly<Record<string, string | undefined>>,
  systemBundles: readonly string[] = SYSTEM_BUNDLES,
): Promise<Record<string, string>> {
  if (authorities === '') {
    return {};
  }
  const [additional, all] = [path.join(folder, ADDITIONAL), path.join(folder, ALL)];
  const system = await firstBundle(systemBundles);
  await Promise.all([writeFile(additional, `${authorities.trim()}\n`), writeFile(all, `${system.trim()}\n${authorities.trim()}\n`)]);
  const variables = { NODE_EXTRA_CA_CERTS: additional, ...Object.fromEntries(REPLACING.map((name) => [name, all])) };
  return Object.fromEntries(Object.entries(variables).filter(([name]) => environment[name] === undefined));
}

/** Returns the contents of the first readable file, or the authorities that Node.js includes if none of the files is readable. */
async function firstBundle(files: readonly string[]): Promise<string> {
  for (const file of files) {
    const text = await readFile(file, 'latin1').catch(() => '');
    if (text.includes('BEGIN CERTIFICATE')) {
      return text;
    }
  }
  return rootCertificates.join('\n');
}

/** The folder, files and environment for one run of the user's program. */
export interface PreparedRun {
  readonly folder: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly reportFile: string;
  /** Path of the file that tells the program to store a checkpoint. See TaskContext. */
  readonly checkpointOrder: string;
  /** Null for a task without a rank. */
  readonly taskRank: number | null;
  /** Bash command to run. */
  readonly command: string;
}

export interface RunRequest {
  /** The user's command. */
  readonly command: string;
  readonly generation: number;
  readonly members: readonly TonyMessages['Member'][];
  readonly port: number;
  /** The services socket's folder, or null if there is none. */
  readonly services: string | null;
  /** Port on 127.0.0.1 on which the framework's service listens, or 0 if the framework has no service. */
  readonly servicePort: number;
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
  const task = frameworkTask(settings, request, context);
  const variables = await processVariables(frameworkOf(framework), task);
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
    ...userEnvironment(own, request.jobEnvironment, { ...context, taskFile }, variables),
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
    taskRank: context.taskRank,
    command: await commandFor(settings, request, task, variables, activation),
  };
}

/** Returns the framework's variables, with the rank of each process that the executor starts. */
export async function processVariables(framework: Framework, task: FrameworkTask): Promise<FrameworkEnvironment> {
  const { defaults, processes } = (await framework.variables?.(task)) ?? { defaults: {}, processes: [{}] };
  const ranks = framework.launchesRanks === true ? [] : processRanks(task);
  const rankVariables = (place: ProcessRank | undefined) =>
    place && {
      [TASK_ENVIRONMENT.rank]: String(place.rank),
      [TASK_ENVIRONMENT.localRank]: String(place.localRank),
      [TASK_ENVIRONMENT.worldSize]: String(place.worldSize),
    };
  return { defaults, processes: processes.map((variables, local) => ({ ...variables, ...rankVariables(ranks[local]) })) };
}

function authoritiesOf({ frozen: { cluster } }: ExecutorSettings): string {
  return cluster.kind === 'yarn' ? (cluster.hadoop[AUTHORITIES] ?? '') : '';
}

function frameworkTask({ frozen, role, host }: ExecutorSettings, { servicePort }: RunRequest, context: TaskContext): FrameworkTask {
  const { processesPerTask, roles } = frozen.job;
  const members = context.members.map((member) => {
    const ofMember = roles.find(({ name }) => name === member.role);
    return { ...member, processes: ofMember === undefined ? 1 : processesOf(processesPerTask, ofMember) };
  });
  const { jobId, generation, index } = context;
  const place = { jobId, generation, role: role.name, index, maxRestarts: role.restart.maxRestarts, members };
  return { ...place, host, resources: role.resources, servicePort };
}

/**
 * Returns the framework's command for the task or the user's command. For a task with several processes, returns the launcher's command.
 * @param activation a message if the Python environment does not work on this node
 */
async function commandFor(
  { folder, frozen }: ExecutorSettings,
  request: RunRequest,
  task: FrameworkTask,
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
  const programs = path.join(folder, CONTAINER_LAYOUT.bundles);
  const own = await frameworkOf(frozen.job.framework).processes?.(task, { command: request.command, folder, programs });
  if (own != null) {
    // The framework's processes, such as those started by mpirun, inherit the environment.
    return `${setup}${own}`;
  }
  if (processes.length === 1) {
    return command;
  }
  const plan: ProcessPlan = {
    command,
    processes: processes.map((environment) => ({ prefix: `[rank ${environment[TASK_ENVIRONMENT.rank]}] `, environment })),
  };
  const file = path.join(folder, `processes-${generation}.json`);
  await writeFile(file, JSON.stringify(plan), { mode: 0o600 });
  return `exec ${nodeCommand(path.join(programs, 'process-launcher.mjs'), file)}`;
}

/**
 * Returns true if programs in this role inherit the socket that is bound to the task's port. The framework's own server opens the port
 * instead.
 */
export function inheritsPort({ framework }: Pick<Job, 'framework'>, { spare }: Pick<Role, 'spare'>): boolean {
  return frameworkOf(framework).opensServer !== true || spare;
}

/** Returns the variables that a program uses to find the tony-ts software. */
function softwareEnvironment(
  framework: FrameworkName,
  bundles: string,
  runtime: string | null,
  environment: Readonly<Record<string, string>>,
): Record<string, string> {
  if (frameworkOf(framework).trainingLibrary === 'never') {
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
    taskRank: each.rank ?? null,
    host: each.host,
    port: each.port,
  }));
  const self = everybody.find((member) => member.role === role.name && member.index === index);
  return {
    version: 1,
    jobId: frozen.jobId,
    jobName: frozen.job.name,
    role: role.name,
    index,
    instances: role.instances,
    taskRank: self?.taskRank ?? null,
    taskWorldSize: everybody.filter(({ taskRank }) => taskRank !== null).length,
    generation,
    members: everybody,
    listener: inheritsPort(frozen.job, role) ? { fd: LISTENER_FD, host, port } : null,
    ringKey: Buffer.from(ringKey.reveal()).toString('base64'),
    strategy: frozen.job.strategy,
    wire: frozen.job.wire,
    parameterServers: parameterServers(frozen.job, everybody),
    checkpoint: {
      dir: frozen.checkpointDir,
      everySteps: frozen.job.checkpoint.everySteps,
      everyMs: frozen.job.checkpoint.everyMs,
      keep: frozen.job.checkpoint.keep,
    },
    summaryDir: frozen.summaryDir,
    outputDir: frozen.outputDir,
    data: frozen.data,
    user: frozen.user,
    hadoop: frozen.cluster.kind === 'yarn' ? frozen.cluster.hadoop : null,
    s3: s3 && Buffer.from(s3.reveal()).toString('utf8'),
    reportFile,
    checkpointOrder,
    services,
    memoryBytes: frozen.cluster.kind === 'yarn' ? role.resources.memoryMb * MEBIBYTE : null,
  };
}

function parameterServers(job: Job, members: readonly Member[]): { host: string; port: number }[] {
  const roles = new Set(job.roles.filter((role) => role.servesParameters).map(({ name }) => name));
  return members
    .filter((member) => roles.has(member.role))
    .sort((a, b) => a.index - b.index)
    .map(({ host, port }) => ({ host, port }));
}
