import { mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Script } from 'node:vm';
// The library's public type, as users import it: the launcher does not depend on the library's files.
import type { Cluster } from 'tony-ts/training';
import { stringify } from 'yaml';
import type { Job } from '../../conf/job.ts';
import type { JobInput } from '../../conf/job-schema.ts';
import { type LoadOptions, parseJob } from '../../conf/resolve/load-job.ts';
import type { SiteConfig } from '../../conf/resolve/site.ts';
import { CALL_DATA, CALL_FILE } from '../../conf/values/run-call.ts';
import { checkOptions, type OptionNames } from '../../platform/check-options.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { encodeJsonValue } from '../../platform/json-value.ts';
import type { LogLine } from '../connections/operations/job-logs.ts';
import { hashFolder } from '../job/source-archive.ts';
import { listFolder } from '../job/source-folder.ts';
import { localRoot, placeFolder } from '../staging/local-folder.ts';
import { JobHandle } from './job-handle.ts';
import { SUBMIT_OPTIONS, type SubmitOptions } from './submission.ts';
import { submitForProgram } from './submit-for-program.ts';

const FUNCTION_EXPORT = 'run';

const RULE =
  'run() sends only the source text of the function, so the function can use only its arguments, globals, and modules that it imports itself';

/**
 * Returns the source text of a module that exports the function. If the function uses a variable from an enclosing scope, the task fails
 * with a ReferenceError that explains this restriction.
 * @param source the result of `function.toString()`
 * @throws TonyError FUNCTION_INVALID
 */
export function functionModule(source: string): string {
  const expression = `(${source}\n)`;
  // Wrap a shorthand method, such as `train(cluster) { ... }`, in an object. The text of such a method is valid only within an object.
  const method = `Object.values({${source}\n})[0]`;
  const error = syntaxError(expression);
  if (error !== null && syntaxError(method) !== null) {
    const [line = ''] = source.split('\n');
    throw new TonyError('FUNCTION_INVALID', `Cannot send the function as source text (${line.slice(0, 60)}): ${messageOf(error)}.`);
  }
  // Define `__name`. TypeScript compilers insert calls to `__name` to preserve the names of nested functions.
  return `const __name = (target) => target;
const called = ${error === null ? expression : method};
export async function ${FUNCTION_EXPORT}(...args) {
  try {
    return await called(...args);
  } catch (error) {
    throw error instanceof ReferenceError ? new ReferenceError(\`\${error.message}. ${RULE}.\`, { cause: error }) : error;
  }
}
`;
}

function syntaxError(expression: string): unknown {
  try {
    new Script(`'use strict'; ${expression};`);
    return null;
  } catch (error) {
    return error;
  }
}

/** Name of the module from which workers import the library. */
const LIBRARY = 'tony-ts/training';

export interface RunOptions extends SubmitOptions {
  /** Number of workers that call the function. With `{ min, max }`, the number is elastic. */
  readonly instances: number | { readonly min: number; readonly max: number };
  /** Number of GPUs per worker. The default is 0. */
  readonly gpus?: number;
  /** Memory per worker, for example `4g`. The default is 2g. */
  readonly memory?: string | number;
  /** Number of virtual cores per worker. The default is 1. */
  readonly vcores?: number;
  /** Job name. The default is the function's name. */
  readonly name?: string;
  /**
   * Maximum number of restarts after the program fails. The default is 0. After each restart, all workers call the function again. Restarts
   * after cluster failures do not count towards the maximum.
   */
  readonly maxRestarts?: number;
  /**
   * Other job.yaml keys, for example `{ data: { mnist: 'data' }, tensorboard: true, strategy: 'parameter-server', roles: { ps: {} } }`.
   */
  readonly conf?: Partial<JobInput>;
  /**
   * Folder to upload if a module exports the function. The default is the module's folder. Files that .tonyignore excludes are not
   * uploaded.
   */
  readonly source?: string;
  /** Called with each line that the workers output until the job ends or the handle is closed. */
  readonly onLog?: (line: LogLine) => void;
}

const RUN_OPTIONS: OptionNames<RunOptions> = {
  instances: true,
  gpus: true,
  memory: true,
  vcores: true,
  name: true,
  maxRestarts: true,
  conf: true,
  source: true,
  onLog: true,
  ...SUBMIT_OPTIONS,
};

/** Function that each worker calls. The job's result is the value that the function returns on the chief (rank 0). */
export type RunFunction<Args extends readonly unknown[], T> = (cluster: Cluster, ...args: Args) => T | Promise<T>;

export interface RunModule {
  /** URL of the module, as in `new URL('./train.ts', import.meta.url)`, or its path. */
  readonly module: URL | string;
  readonly export: string;
  /** Arguments that the function receives after `cluster`. They must be JSON values. */
  readonly args?: readonly unknown[];
}

/**
 * Calls a function on workers of a cluster or, with `local: true`, in processes on this machine. Resolves with the value that the function
 * returns on the chief, which is the worker with rank 0.
 *
 * The function is sent as source text. It can use only its arguments, its own variables, Node.js and JavaScript globals, and modules that
 * it imports with `await import(...)`. If it uses a variable from an enclosing scope, the job fails with a ReferenceError. In that case,
 * export the function from a module: `run(options, { module: new URL('./train.ts', import.meta.url), export: 'train', args: [...] })`. The
 * module's folder is then uploaded. The arguments and the result are JSON values of at most 16 MiB each.
 * @throws TonyError FUNCTION_INVALID, JOB_INVALID and the errors of `submit`; JOB_FAILED with the error of the task that failed first, and
 *   the last lines of its output
 */
export function run<T, Args extends readonly unknown[]>(options: RunOptions, called: RunFunction<Args, T>, ...args: Args): Promise<T>;
export function run<T = unknown>(options: RunOptions, called: RunModule): Promise<T>;
export async function run<T>(
  options: RunOptions,
  called: RunFunction<readonly unknown[], T> | RunModule,
  ...args: readonly unknown[]
): Promise<T> {
  checkRun('run', options);
  const { signal } = options;
  const job = await startCall<T>(options, called, args);
  const kill = () => void job.kill().catch(() => {});
  try {
    signal?.addEventListener('abort', kill, { once: true });
    if (signal?.aborted) {
      await job.kill();
    }
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
 * Like `run`, but resolves as soon as the job is submitted.
 * @returns a handle with `events()`, `logs()`, `status()`, `result()` and `kill()`. The caller must close the handle. `openJob(handle.id)`
 *   returns another handle to the same job.
 */
export function start<T, Args extends readonly unknown[]>(
  options: RunOptions,
  called: RunFunction<Args, T>,
  ...args: Args
): Promise<JobHandle<T>>;
export function start<T = unknown>(options: RunOptions, called: RunModule): Promise<JobHandle<T>>;
export async function start<T>(
  options: RunOptions,
  called: RunFunction<readonly unknown[], T> | RunModule,
  ...args: readonly unknown[]
): Promise<JobHandle<T>> {
  checkRun('start', options);
  if (typeof called !== 'function' && (typeof called !== 'object' || called === null || !('module' in called))) {
    throw new TonyError('USAGE', 'start needs a function, or { module, export }', { hint: 'To submit a job file, call submit(path).' });
  }
  return await startCall<T>(options, called, args);
}

function checkRun(name: string, options: RunOptions): void {
  checkOptions(name, options, RUN_OPTIONS);
  const { instances } = options;
  const isCount = (value: unknown): boolean => Number.isInteger(value) && (value as number) >= 1;
  if (isCount(instances) || (typeof instances === 'object' && instances !== null && isCount(instances.min) && isCount(instances.max))) {
    return;
  }
  throw new TonyError(
    'USAGE',
    `${name}: instances must be a whole number of at least 1, or { min, max }, not ${JSON.stringify(instances)}.`,
    {
      hint: '`instances` is the number of workers that call the function.',
    },
  );
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
    const parts = { name, source, call: await placed(callFolder, options) };
    const connection = await submitForProgram(async (site) => jobOf(options, parts, site), options);
    return new JobHandle<T>(connection, options.onLog, true);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

type RoleInput = JobInput['roles'][string];

interface CallFolder {
  readonly source: string;
  readonly name: string;
  readonly call: string;
}

async function bySource(folder: string, called: RunFunction<readonly unknown[], unknown>, args: readonly unknown[]): Promise<CallFolder> {
  const source = path.join(folder, 'source');
  const text = functionModule(called.toString());
  await mkdir(source);
  await writeFile(path.join(source, 'function.mjs'), text);
  return { source, name: called.name || 'run', call: callText('function.mjs', FUNCTION_EXPORT, args) };
}

async function byModule(called: RunModule, options: RunOptions): Promise<CallFolder> {
  const file =
    called.module instanceof URL || called.module.startsWith('file:') ? fileURLToPath(called.module) : path.resolve(called.module);
  if (!(await stat(file).catch(() => null))?.isFile()) {
    throw new TonyError('FUNCTION_INVALID', `The module ${file} does not exist.`, { hint: 'Check the path.' });
  }
  const source = path.resolve(options.source ?? path.dirname(file));
  const relative = path.relative(source, file);
  if (relative.startsWith('..') || path.isAbsolute(relative)) {
    throw new TonyError('FUNCTION_INVALID', `The module ${file} is not in the source folder ${source}.`, {
      hint: 'Set `source` to a folder that contains the module.',
    });
  }
  return { source, name: called.export, call: callText(relative.split(path.sep).join('/'), called.export, called.args ?? []) };
}

function callText(module: string, name: string, args: readonly unknown[]): string {
  const encoded = args.map((value, index) => (value === undefined ? 'null' : encodeJsonValue(value, `args[${index}]`, 'FUNCTION_INVALID')));
  return `{"module":${JSON.stringify(module)},"export":${JSON.stringify(name)},"args":[${encoded.join(',')}]}`;
}

/**
 * Returns the folder that contains the call's data. For a local job, copies the folder to the local cache, because `startCall` removes the
 * original. On a cluster, the submission uploads the folder.
 */
async function placed(folder: string, options: RunOptions): Promise<string> {
  if (options.local !== true) {
    return folder;
  }
  const root = options.localRoot ?? localRoot(options.env);
  const { uri } = await placeFolder(root, CALL_DATA, await hashFolder(await listFolder(folder, 'call folder')), () => {});
  return fileURLToPath(uri);
}

function notesTo({ onProgress }: SubmitOptions): Pick<LoadOptions, 'onNote'> {
  return onProgress === undefined ? {} : { onNote: onProgress };
}

function jobOf(
  options: RunOptions,
  { name, source, call }: { readonly name: string; readonly source: string; readonly call: string },
  site: SiteConfig | null,
): Job {
  const { instances, gpus = 0, memory = '2g', vcores = 1, maxRestarts = 0, conf = {} } = options;
  const { worker, ...others } = conf.roles ?? {};
  const document: JobInput = {
    command: `node --input-type=module --eval "import { runCall } from '${LIBRARY}'; await runCall();"`,
    ...conf,
    chief: 'worker',
    name: options.name ?? conf.name ?? jobName(name),
    source: { path: source, exclude: typeof conf.source === 'object' ? (conf.source?.exclude ?? []) : [] },
    data: { ...conf.data, [CALL_DATA]: call },
    roles: {
      worker: {
        restart: { maxRestarts },
        ...worker,
        instances,
        resources: { memory, vcores, gpus, ...worker?.resources } as RoleInput['resources'],
        kind: 'gang',
      },
      ...others,
    },
  };
  try {
    return parseJob(stringify(document), { site, ...notesTo(options), file: 'run', folder: process.cwd() });
  } catch (error) {
    if (error instanceof TonyError && error.code === 'JOB_INVALID') {
      throw new TonyError('JOB_INVALID', error.message, {
        hint: 'Fix the options passed to run(). `conf` accepts the keys of job.yaml.',
        cause: error,
      });
    }
    throw error;
  }
}

function jobName(name: string): string {
  return name.replace(/[^\w .:@+-]/g, '-').replace(/^[^A-Za-z0-9]+/, '') || 'run';
}
