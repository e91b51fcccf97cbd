import { mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { stringify } from 'yaml';
import { TonyError } from '../conf/errors.ts';
import type { Job } from '../conf/job.ts';
import type { JobInput } from '../conf/job-schema.ts';
import { encodeJsonValue } from '../conf/json-value.ts';
import { type LoadOptions, loadJob, parseJob } from '../conf/load-job.ts';
import { CALL_DATA, CALL_FILE } from '../conf/run-call.ts';
import type { Cluster } from '../training/cluster.ts';
import { JobHandle } from './job-handle.ts';
import type { LogLine } from './job-logs.ts';
import { localRoot, placeFolder } from './local-folder.ts';
import { FUNCTION_EXPORT, moduleOf } from './run-source.ts';
import { siteFor } from './site-for.ts';
import { hashFolder } from './source-archive.ts';
import { listFolder } from './source-folder.ts';
import { type SubmitOptions, submit } from './submit.ts';

/** As the workers find it. */
const LIBRARY = 'tony-ts/training';

export interface RunOptions extends SubmitOptions {
  /** How many workers call the function; `{ min, max }` for as many as there is room for. */
  readonly slots: number | { readonly min: number; readonly max: number };
  /** GPUs of each; none unless told. */
  readonly gpus?: number;
  /** Memory of each, e.g. `4g`; 2g unless told. */
  readonly memory?: string | number;
  /** Virtual cores of each; 1 unless told. */
  readonly vcores?: number;
  /** The job's name; the function's unless told. */
  readonly name?: string;
  /** Failures of a task's program after which it is called again, on all workers; 0 unless told. What the cluster loses is replaced anyway. */
  readonly maxRestarts?: number;
  /** Anything else that job.yaml can say: `{ data: { mnist: 'data' }, tensorboard: true, strategy: 'parameter-server', roles: { ps: {} } }`. */
  readonly conf?: Partial<JobInput>;
  /** The folder that is shipped with a module: that of the module unless told. What .tonyignore names stays behind. */
  readonly source?: string;
  /** Told what the workers' programs write, until the job is over or the handle is closed. */
  readonly onLog?: (line: LogLine) => void;
}

/** Called on each worker; the value of the chief (rank 0) is the job's. */
export type RunFunction<Args extends readonly unknown[], T> = (cluster: Cluster, ...args: Args) => T | Promise<T>;

/** A function by the module that exports it. */
export interface RunModule {
  /** `new URL('./train.ts', import.meta.url)`, or a path. */
  readonly module: URL | string;
  readonly export: string;
  /** What it is called with behind the cluster: JSON. */
  readonly args?: readonly unknown[];
}

/**
 * Calls a function on workers of a cluster, or (`local: true`) on processes of this machine, and answers what it returns on the chief.
 *
 * The function is sent by its own text: it may use its arguments, its own variables, what Node and JavaScript have, and modules that it imports itself
 * (`await import(...)`), and is refused when it uses anything else. A function that needs its surroundings is exported from a module, which is
 * sent with its folder: `run(options, { module: new URL('./train.ts', import.meta.url), export: 'train', args: [...] })`. Arguments and value are JSON of
 * at most 16 MiB each.
 *
 * @throws TonyError FUNCTION_INVALID, JOB_INVALID and what `submit` throws; JOB_FAILED with the error of the first task that failed and its last lines.
 */
export function run<T, Args extends readonly unknown[]>(options: RunOptions, called: RunFunction<Args, T>, ...args: Args): Promise<T>;
export function run<T = unknown>(options: RunOptions, called: RunModule): Promise<T>;
export async function run<T>(
  options: RunOptions,
  called: RunFunction<readonly unknown[], T> | RunModule,
  ...args: readonly unknown[]
): Promise<T> {
  const { signal } = options;
  const job = await startCall<T>(options, called, args);
  const kill = () => void job.kill().catch(() => {});
  try {
    signal?.addEventListener('abort', kill, { once: true });
    if (signal?.aborted) await job.kill();
    return await job.result();
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  } finally {
    signal?.removeEventListener('abort', kill);
    job.close();
  }
}

/**
 * As `run`, without waiting; or a job of job.yaml, by the file's path or as `loadJob` gives it.
 *
 * @returns a handle with `logs()`, `status()`, `result()` and `kill()`; its user closes it. `attachJob(handle.id)` finds it again.
 */
export function start<T, Args extends readonly unknown[]>(
  options: RunOptions,
  called: RunFunction<Args, T>,
  ...args: Args
): Promise<JobHandle<T>>;
export function start<T = unknown>(options: RunOptions, called: RunModule): Promise<JobHandle<T>>;
export function start(job: Job | string, options?: SubmitOptions): Promise<JobHandle>;
export async function start<T>(
  first: RunOptions | Job | string,
  second?: RunFunction<readonly unknown[], T> | RunModule | SubmitOptions,
  ...args: readonly unknown[]
): Promise<JobHandle<T>> {
  if (typeof first !== 'string' && 'slots' in first)
    return startCall<T>(first, second as RunFunction<readonly unknown[], T> | RunModule, args);
  const submitOptions = second as SubmitOptions | undefined;
  const job = typeof first === 'string' ? await loadJob(first, await settledBySite(submitOptions)) : first;
  return new JobHandle<T>(await submit(job, submitOptions));
}

async function startCall<T>(
  options: RunOptions,
  called: RunFunction<readonly unknown[], T> | RunModule,
  given: readonly unknown[],
): Promise<JobHandle<T>> {
  const folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-run-'));
  try {
    const { source, name, call } = typeof called === 'function' ? await bySource(folder, called, given) : await byModule(called, options);
    const callFolder = path.join(folder, 'call');
    await mkdir(callFolder);
    await writeFile(path.join(callFolder, CALL_FILE), call);
    const job = jobOf(options, { name, source, call: await placed(callFolder, options) }, await settledBySite(options));
    const connection = await submit(job, options);
    return new JobHandle<T>(connection, options.onLog);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

type RoleInput = JobInput['roles'][string];

interface Prepared {
  /** Absolute path of the folder to ship. */
  readonly source: string;
  readonly name: string;
  readonly call: string;
}

async function bySource(folder: string, called: RunFunction<readonly unknown[], unknown>, args: readonly unknown[]): Promise<Prepared> {
  const source = path.join(folder, 'source');
  const text = await moduleOf(called.toString());
  await mkdir(source);
  await writeFile(path.join(source, 'function.mjs'), text);
  return { source, name: called.name || 'run', call: callText('function.mjs', FUNCTION_EXPORT, args) };
}

async function byModule(called: RunModule, options: RunOptions): Promise<Prepared> {
  const file =
    called.module instanceof URL || called.module.startsWith('file:') ? fileURLToPath(called.module) : path.resolve(called.module);
  if (!(await stat(file).catch(() => null))?.isFile())
    throw new TonyError('FUNCTION_INVALID', `There is no module ${file}.`, { hint: 'Check the path.' });
  const source = path.resolve(options.source ?? path.dirname(file));
  const relative = path.relative(source, file);
  if (relative.startsWith('..') || path.isAbsolute(relative)) {
    throw new TonyError('FUNCTION_INVALID', `The module ${file} does not lie in the source folder ${source}.`, {
      hint: 'Name a folder with `source` that holds it.',
    });
  }
  return { source, name: called.export, call: callText(relative.split(path.sep).join('/'), called.export, called.args ?? []) };
}

function callText(module: string, name: string, args: readonly unknown[]): string {
  const encoded = args.map((value, index) => (value === undefined ? 'null' : encodeJsonValue(value, `args[${index}]`, 'FUNCTION_INVALID')));
  return `{"module":${JSON.stringify(module)},"export":${JSON.stringify(name)},"args":[${encoded.join(',')}]}`;
}

/** On a cluster it is staged by its content; here it has to stay after this function, under its content as well. */
async function placed(folder: string, options: RunOptions): Promise<string> {
  if (options.local !== true) return folder;
  const root = options.localRoot ?? localRoot(options.environment);
  const { uri } = await placeFolder(root, CALL_DATA, await hashFolder(await listFolder(folder, 'folder of the call')), () => {});
  return fileURLToPath(uri);
}

/** What the admin's site file changes is told as a line of progress. */
async function settledBySite(options: SubmitOptions = {}): Promise<LoadOptions> {
  return { site: await siteFor(options), ...(options.onProgress && { onOverridden: options.onProgress }) };
}

function jobOf(
  options: RunOptions,
  { name, source, call }: { readonly name: string; readonly source: string; readonly call: string },
  settled: LoadOptions,
): Job {
  const { slots, gpus = 0, memory = '2g', vcores = 1, maxRestarts = 0, conf = {} } = options;
  const { worker, ...others } = conf.roles ?? {};
  const document: JobInput = {
    command: `node --input-type=module --eval "import { runCall } from '${LIBRARY}'; await runCall();"`,
    ...conf,
    name: options.name ?? conf.name ?? jobName(name),
    source: { path: source, exclude: typeof conf.source === 'object' ? (conf.source.exclude ?? []) : [] },
    data: { ...conf.data, [CALL_DATA]: call },
    roles: {
      worker: {
        restart: { maxRestarts },
        ...worker,
        instances: slots,
        resources: { memory, vcores, gpus, ...worker?.resources } as RoleInput['resources'],
        chief: true,
        ranked: true,
      },
      ...others,
    },
  };
  try {
    return parseJob(stringify(document), { ...settled, file: 'run', folder: process.cwd() });
  } catch (error) {
    if (error instanceof TonyError && error.code === 'JOB_INVALID') {
      throw new TonyError('JOB_INVALID', error.message, {
        hint: 'Correct the options of run; `conf` holds what job.yaml would.',
        cause: error,
      });
    }
    throw error;
  }
}

/** Names of functions may hold what names of jobs may not. */
function jobName(name: string): string {
  return name.replace(/[^\w .:@+-]/g, '-').replace(/^[^A-Za-z0-9]+/, '') || 'run';
}
