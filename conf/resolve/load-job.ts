import { readFile } from 'node:fs/promises';
import { basename, dirname, extname, resolve } from 'node:path';
import { checkOptions, type OptionNames } from '../../platform/check-options.ts';
import { fileErrorOf, TonyError } from '../../platform/errors.ts';
import { resolvePath } from '../../platform/files/resolve-path.ts';
import { foreignKeyProblem } from '../foreign-keys.ts';
import type { Job, OwnResources, Role } from '../job.ts';
import { defaultsSchema } from '../job-part.ts';
import { type JobYaml, jobJsonSchema, jobSchema } from '../job-schema.ts';
import { isTextKey } from '../job-values.ts';
import { toPython } from '../python.ts';
import { toShippedFiles } from '../shipped-files.ts';
import { DEFAULT_CHECKPOINT_STEPS } from '../values/checkpoint-steps.ts';
import { isUri } from '../values/is-uri.ts';
import { resourceProblemAt } from '../values/resource-key.ts';
import { EVERY_ROLE } from '../values/role-name.ts';
import { YamlFile, type YamlProblem } from '../yaml-file.ts';
import { accidentalRankNotes } from './accidental-ranks.ts';
import { fileBeside, isFileIn, isTooBroad } from './default-source.ts';
import { withDefaults } from './default-values.ts';
import { mergeEveryRole } from './every-role.ts';
import { describeFinalValue, withFinalValues, withRoleValues } from './final-values.ts';
import { frameworkProblems, unprotected } from './framework-problems.ts';
import { isIndependent, meaningProblems } from './job-problems.ts';
import { applyOverride, overriddenBy } from './overrides.ts';
import type { SiteConfig } from './site.ts';
import { chiefOf, isServing, kindOf, withStrategyRoles } from './strategy-roles.ts';

export interface LoadOptions {
  /** Overrides in `--set` syntax, for example `roles.worker.instances=4`. Values are YAML. `\.` stands for a dot within a key. */
  readonly set?: readonly string[];
  /** The cluster's site file, or null for local jobs. Its defaults set missing keys, and its final values override the job's keys. */
  readonly site?: (Pick<SiteConfig, 'from' | 'defaults' | 'final'> & Partial<Pick<SiteConfig, 'unknownKeys'>>) | null;
  /**
   * Called with a sentence about each overridden value, for example `the site file sets heartbeat.interval to 3s (job.yaml: 1s)`, about each
   * key of the site file that this version of tony-ts ignores, and about each role that joins the gang although its name, or the role beside
   * it, suggests otherwise.
   */
  readonly onNote?: (line: string) => void;
}

const LOAD_OPTIONS: OptionNames<LoadOptions> = { set: true, site: true, onNote: true };

/** Hints for files that exist, by the code of the file system's error. */
const UNREADABLE_HINTS: Readonly<Record<string, string>> = {
  EACCES: 'Give your user read access to the file.',
  EISDIR: 'Pass the path of the job file in this folder, such as job.yaml.',
};

/**
 * Reads and validates a job.yaml.
 * @throws TonyError JOB_UNREADABLE if the file cannot be read; JOB_INVALID with the line, the column and the expected value of every
 * mistake
 */
export async function loadJob(path: string, options: LoadOptions = {}): Promise<Job> {
  checkOptions('loadJob', options, LOAD_OPTIONS);
  return (await readJob(path)).parse(options);
}

export interface ReadJob {
  readonly text: string;
  /** @throws TonyError JOB_INVALID */
  readonly parse: (options: LoadOptions) => Job;
}

/**
 * Reads a job.yaml before the cluster's site file is known.
 * @throws TonyError JOB_UNREADABLE; JOB_INVALID if the file is a program
 */
export async function readJob(path: string): Promise<ReadJob> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    throw new TonyError('JOB_UNREADABLE', `Cannot read the job file ${path}: ${fileErrorOf(error)}.`, {
      cause: error,
      ...(Object.hasOwn(UNREADABLE_HINTS, code) && { hint: UNREADABLE_HINTS[code] }),
    });
  }
  refuseProgram(path);
  const folder = dirname(resolve(path));
  return { text, parse: (options) => parseJob(text, { ...options, file: path, folder, isFile: isFileIn(folder) }) };
}

/** Programs that run files, by the files' extensions. */
const INTERPRETERS: Readonly<Record<string, string>> = {
  ...Object.fromEntries(['ts', 'mts', 'cts', 'js', 'mjs', 'cjs'].map((extension) => [extension, 'node'])),
  py: 'python3',
  sh: 'bash',
};

/** @throws TonyError JOB_INVALID if the path is that of a program. As YAML, a program would have a mistake in most of its lines. */
function refuseProgram(path: string): void {
  const extension = extname(path).slice(1).toLowerCase();
  if (!Object.hasOwn(INTERPRETERS, extension)) {
    return;
  }
  throw new TonyError('JOB_INVALID', `${path} is a program, not a job file.`, {
    hint: `To run it in one task, write \`tony-ts submit -- ${INTERPRETERS[extension]} ${path}\`. \`--instances 4\` before \`--\` runs it in 4 tasks. For other settings, name it in the \`command\` of a job file: \`tony-ts init\` creates one.`,
  });
}

export interface ParseOptions extends LoadOptions {
  readonly file: string;
  /** Folder against which relative paths are resolved. */
  readonly folder: string;
  /**
   * Returns whether a path, relative to `folder`, is a file. If a command refers to such a file, `folder` becomes the default source. By
   * default, the function returns false.
   */
  readonly isFile?: (path: string) => boolean;
}

/** Validates the text of a job.yaml in the same way as {@link loadJob}, but does not access the file system. */
export function parseJob(text: string, options: ParseOptions): Job {
  const { site } = options;
  const yaml = new YamlFile(text, {
    file: options.file,
    what: 'job file',
    code: 'JOB_INVALID',
    expected: 'a mapping with the keys name and roles',
    isText: isTextKey,
  });
  const overridden = new Map<string, string>();
  for (const assignment of options.set ?? []) {
    applyOverride(yaml.document, assignment, overridden);
  }
  mergeEveryRole(yaml.document);
  let written: unknown;
  let filled: unknown;
  const file = yaml.check(jobSchema, {
    amend: (content) => {
      written = content;
      filled = site ? withDefaults(content, site.defaults) : content;
      return filled;
    },
    schema: jobJsonSchema,
    key: resourceProblemAt,
    missing: { roles: 'at least one role is required' },
    unknown: foreignKeyProblem,
    meaning: (file) => [
      ...meaningProblems(file),
      ...sourceProblems(file, options),
      ...frameworkProblems(file, sets(filled, ['framework'])),
    ],
    independent: isIndependent,
    elsewhere: (path) => {
      const override = overriddenBy(path, overridden);
      if (override !== undefined) {
        return `--set ${override}`;
      }
      return site && !sets(written, path) && sets(filled, path) ? `${site.from} (defaults)` : undefined;
    },
  });
  const job = toJob(withStrategyRoles(file), options);
  for (const note of accidentalRankNotes(file, job)) {
    options.onNote?.(note);
  }
  if (!site) {
    return job;
  }
  for (const text of site.unknownKeys ?? []) {
    options.onNote?.(`The site file has a key that this version of tony-ts ignores: ${text}`);
  }
  const { job: settled, changed } = withFinalValues(withDefaultsOfStrategyRoles(job, written, site), site.final);
  const reason = unprotected(settled.framework);
  if (reason !== undefined && settled.wire.security !== 'none') {
    throw new TonyError('JOB_INVALID', `${site.from} requires wire.security ${settled.wire.security}: ${reason}.`, {
      hint: 'Ask the cluster admin to allow such jobs.',
    });
  }
  for (const value of changed) {
    // A role inherits the variables in the job's `env`.
    const [, , key, variable = ''] = value.path;
    const setPath = [value.path, ...(key === 'env' ? [[key, variable]] : [])].find((path) => sets(written, path));
    if (setPath === undefined || value.was === value.is) {
      continue;
    }
    const override = overriddenBy(setPath, overridden);
    options.onNote?.(describeFinalValue(value, override === undefined ? basename(options.file) : '--set'));
  }
  return settled;
}

/**
 * Applies site defaults to the roles that the strategy adds. Such a role is a copy of the chief's role, so only three kinds of defaults are
 * missing: those under its own name, the node label, and other resource types.
 */
function withDefaultsOfStrategyRoles(job: Job, written: unknown, { defaults }: Pick<SiteConfig, 'defaults'>): Job {
  const parts = defaultsSchema.parse(defaults).roles ?? {};
  const { nodeLabel, resources: { memory: _m, vcores: _v, gpus: _g, ...other } = {} } = parts[EVERY_ROLE] ?? {};
  const roles = job.roles.map((role) => {
    if (sets(written, ['roles', role.name])) {
      return role;
    }
    const { env = {}, resources, ...part } = (Object.hasOwn(parts, role.name) ? parts[role.name] : undefined) ?? {};
    const missing = Object.entries(env).filter(([variable]) => !sets(written, ['env', variable]));
    const whole = { nodeLabel, ...part, resources: { ...other, ...resources }, env: Object.fromEntries(missing) };
    return withRoleValues(role, whole, job.env).role;
  });
  return { ...job, roles };
}

function sets(written: unknown, path: readonly (string | number)[]): boolean {
  let value = written;
  for (const key of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) {
      return false;
    }
    value = (value as Readonly<Record<string | number, unknown>>)[key];
  }
  return true;
}

/**
 * Returns the first file to which a command refers. Such a file makes the folder of job.yaml the default source. Returns undefined if
 * job.yaml sets `source`, or if no command refers to a file.
 */
function namedFile(file: JobYaml, isFile: NonNullable<ParseOptions['isFile']> = () => false): string | undefined {
  if (file.source !== undefined) {
    return undefined;
  }
  const commands = [file.command, ...Object.values(file.roles).map(({ command }) => command)];
  return commands.map((command) => fileBeside(command ?? '', isFile)).find((found) => found !== undefined);
}

function sourceProblems(file: JobYaml, { folder, isFile }: ParseOptions): YamlProblem[] {
  const named = namedFile(file, isFile);
  if (named === undefined || !isTooBroad(folder)) {
    return [];
  }
  const message = `a command names ${named}, which is in ${folder}: move the job to a separate folder, or write \`source: .\` to upload that folder`;
  return [{ path: [], message }];
}

function toJob(file: JobYaml, { folder, isFile }: ParseOptions): Job {
  const names = Object.keys(file.roles);
  const chief = chiefOf(file);
  const chosen = file.source ?? (namedFile(file, isFile) === undefined ? null : { path: '.', exclude: [] });
  const source = chosen && { ...chosen, path: resolvePath(chosen.path, folder) };
  const roles = names.map((name): Role => {
    const role = file.roles[name] as JobYaml['roles'][string];
    const { memory, vcores, gpus, ...other } = role.resources;
    return {
      name,
      instances: role.instances.min,
      maxInstances: role.instances.max,
      resources: { memoryMb: memory, vcores, gpus, other },
      command: role.command ?? file.command ?? '',
      files: toShippedFiles(role, (path) => resolvePath(path, folder)),
      env: role.env,
      nodeLabel: role.nodeLabel ?? null,
      docker: role.docker,
      restart: { ...role.restart, onExitCodes: role.restart.onExitCodes ?? null },
      timeoutMs: role.timeout ?? null,
      gracePeriodMs: role.gracePeriod,
      after: role.after ?? [],
      endAfter:
        role.endAfter === undefined ? null : { roles: role.endAfter.role, timeoutMs: role.endAfter.timeout, late: role.endAfter.late },
      kind: kindOf(file, name),
      chief: name === chief,
      servesParameters: isServing(file, name),
      spare: false,
    };
  });
  return {
    name: file.name,
    queue: file.queue,
    source,
    framework: file.framework,
    processesPerTask: file.processesPerTask,
    runtime: file.runtime,
    python: toPython(file.python, (path) => resolvePath(path, folder)),
    data: Object.fromEntries(Object.entries(file.data).map(([name, place]) => [name, isUri(place) ? place : resolvePath(place, folder)])),
    files: toShippedFiles(file, (path) => resolvePath(path, folder)),
    env: file.env,
    roles,
    successPolicy: file.successPolicy,
    restart: { maxRestarts: file.restart.maxRestarts ?? null },
    gang: { timeoutMs: file.gang.timeout },
    heartbeat: { intervalMs: file.heartbeat.interval, missed: file.heartbeat.missed },
    checkpoint: {
      dir: file.checkpoint.dir ?? null,
      everySteps: file.checkpoint.everySteps ?? (file.checkpoint.every === undefined ? DEFAULT_CHECKPOINT_STEPS : null),
      everyMs: file.checkpoint.every ?? null,
      keep: file.checkpoint.keep,
      sync: file.checkpoint.sync ?? null,
    },
    tensorboard: {
      logdir: file.tensorboard.logdir ?? null,
      serve: file.tensorboard.serve,
      resources: toOwnResources(file.tensorboard.resources),
    },
    strategy: file.strategy,
    wire: file.wire,
    timeoutMs: file.timeout ?? null,
    acls: file.acls,
    kerberos:
      file.kerberos === null ? null : { keytab: resolvePath(file.kerberos.keytab, folder), principal: file.kerberos.principal ?? null },
    remoteAccess: file.remoteAccess,
    master: toMaster(file.master),
    priority: file.priority,
    tags: file.tags,
  };
}

function toOwnResources({ memory, vcores }: JobYaml['master']['resources']): OwnResources {
  return { memoryMb: memory, vcores };
}

function toMaster({ resources, nodeLabel, failureWindow, startTimeout, ...same }: JobYaml['master']): Job['master'] {
  return {
    ...same,
    resources: toOwnResources(resources),
    nodeLabel: nodeLabel ?? null,
    failureWindowMs: failureWindow ?? null,
    startTimeoutMs: startTimeout ?? null,
  };
}
