import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { basename, dirname, isAbsolute, resolve } from 'node:path';
import { type Document, isMap, parse } from 'yaml';
import { withDefaults } from './default-values.ts';
import { fileErrorOf, messageOf, TonyError } from './errors.ts';
import { describeFinalValue, withFinalValues, withRoleValues } from './final-values.ts';
import { isUri } from './is-uri.ts';
import type { Job, Role } from './job.ts';
import { EVERY_ROLE, jobPartSchema } from './job-part.ts';
import { type JobFile, jobJsonSchema, jobSchema } from './job-schema.ts';
import { meantResource } from './resource-key.ts';
import type { Site } from './site.ts';
import { chiefOf, isRanked, isServing, strategyProblems, withStrategyRoles } from './strategy-roles.ts';
import { type Problem, YamlFile } from './yaml-file.ts';

export interface LoadOptions {
  /** Overrides as `--set` takes them: `roles.worker.instances=4`; the value is YAML; a dot within a key is written `\.`. */
  readonly set?: readonly string[];
  /** What the admin of the cluster has settled: its defaults fill gaps, its final values win. Jobs of one's own machine have none. */
  readonly site?: Pick<Site, 'from' | 'defaults' | 'final'> | null;
  /** Told of each value of the job that a final one takes the place of: `the site file sets heartbeat.interval to 3s (job.yaml: 1s)`. */
  readonly onOverridden?: (line: string) => void;
}

/**
 * Reads a job file.
 * @throws TonyError JOB_UNREADABLE when there is no such file, JOB_INVALID with every mistake: line, column, what to write instead.
 */
export async function loadJob(path: string, options: LoadOptions = {}): Promise<Job> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    throw new TonyError('JOB_UNREADABLE', `Cannot read the job file ${path}: ${fileErrorOf(error)}.`, { cause: error });
  }
  return parseJob(text, { ...options, file: path, folder: dirname(resolve(path)) });
}

/** The pure part of {@link loadJob}: `file` is the name that problems carry, `folder` what relative paths start from. */
export function parseJob(text: string, options: LoadOptions & { readonly file: string; readonly folder: string }): Job {
  const { site } = options;
  const yaml = new YamlFile(text, {
    file: options.file,
    what: 'job file',
    code: 'JOB_INVALID',
    expected: 'a mapping with the keys name and roles',
  });
  const overridden = new Map<string, string>();
  for (const assignment of options.set ?? []) applyOverride(yaml.document, assignment, overridden);
  let said: unknown;
  let filled: unknown;
  const file = yaml.check(jobSchema, {
    amend: (written) => {
      said = written;
      filled = site ? withDefaults(written, site.defaults) : written;
      return filled;
    },
    schema: jobJsonSchema,
    missing: { roles: 'write at least one role' },
    meaning: meaningProblems,
    elsewhere: (path) => {
      const override = overriddenBy(path, overridden);
      if (override !== undefined) return `--set ${override}`;
      return site && !says(said, path) && says(filled, path) ? `${site.from} (defaults)` : undefined;
    },
  });
  const job = toJob(withStrategyRoles(file), options.folder);
  if (!site) return job;
  const { job: settled, changed } = withFinalValues(withDefaultsOfStrategyRoles(job, said, site), site.final);
  for (const value of changed) {
    // What is said of a variable for all roles holds for each.
    const [, , key, variable = ''] = value.path;
    const saying = [value.path, ...(key === 'env' ? [[key, variable]] : [])].find((path) => says(said, path));
    if (saying === undefined || value.was === value.is) continue;
    const override = overriddenBy(saying, overridden);
    options.onOverridden?.(describeFinalValue(value, override === undefined ? basename(options.file) : '--set'));
  }
  return settled;
}

/**
 * A role that the strategy brings is like the chief, which has the defaults of every role already. Left is what it does not have from the chief: the
 * node label, other resource types than the usual ones, and what is said of it by name.
 */
function withDefaultsOfStrategyRoles(job: Job, said: unknown, { defaults }: Pick<Site, 'defaults'>): Job {
  const parts = jobPartSchema.parse(defaults).roles ?? {};
  const { nodeLabel, resources: { memory: _m, vcores: _v, gpus: _g, ...other } = {} } = parts[EVERY_ROLE] ?? {};
  const roles = job.roles.map((role) => {
    if (says(said, ['roles', role.name])) return role;
    const { env = {}, resources, ...part } = (Object.hasOwn(parts, role.name) ? parts[role.name] : undefined) ?? {};
    const unsaid = Object.entries(env).filter(([variable]) => !says(said, ['env', variable]));
    const whole = { nodeLabel, ...part, resources: { ...other, ...resources }, env: Object.fromEntries(unsaid) };
    return withRoleValues(role, whole, job.env).role;
  });
  return { ...job, roles };
}

function says(said: unknown, path: readonly (string | number)[]): boolean {
  let value = said;
  for (const key of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return false;
    value = (value as Readonly<Record<string | number, unknown>>)[key];
  }
  return true;
}

/** `roles.worker.instances=4` put into the document; what was there is replaced, what was missing is made. */
function applyOverride(document: Document, assignment: string, overridden: Map<string, string>): void {
  const equals = assignment.indexOf('=');
  const keys = splitKeys(assignment.slice(0, Math.max(0, equals)));
  if (equals < 1 || keys.some((key) => key === '')) {
    throw new TonyError('USAGE', `--set ${assignment} is no assignment.`, { hint: 'Write it like --set roles.worker.instances=4.' });
  }
  let value: unknown;
  try {
    value = parse(assignment.slice(equals + 1));
  } catch (error) {
    throw new TonyError('USAGE', `The value of --set ${assignment} is no YAML: ${messageOf(error)}.`, {
      hint: 'Quote it, like --set \'command="node train.ts --rate 0.1"\'.',
      cause: error,
    });
  }
  for (let depth = 1; depth < keys.length; depth++) {
    const parent = document.getIn(keys.slice(0, depth), true);
    if (parent !== undefined && !isMap(parent)) document.deleteIn(keys.slice(0, depth));
  }
  document.setIn(keys, value === undefined ? undefined : document.createNode(value));
  overridden.set(keys.join('\u0000'), assignment);
}

function splitKeys(path: string): string[] {
  return path
    .split(/(?<!\\)\./)
    .map((key) => key.replaceAll('\\.', '.'))
    .map((key) => key.trim());
}

function overriddenBy(path: readonly (string | number)[], overridden: ReadonlyMap<string, string>): string | undefined {
  for (let length = path.length; length > 0; length--) {
    const found = overridden.get(path.slice(0, length).join('\u0000'));
    if (found !== undefined) return found;
  }
  return undefined;
}

/** What is well-formed but means nothing. */
function meaningProblems(file: JobFile): Problem[] {
  const problems = strategyProblems(file);
  const names = Object.keys(file.roles);
  const complete = withStrategyRoles(file);
  if (names.length === 0) problems.push({ path: ['roles'], message: 'write at least one role' });
  for (const name of names) {
    const role = file.roles[name];
    if (role === undefined) continue;
    const kept = complete.roles[name];
    if (kept !== undefined && kept.command === undefined && file.command === undefined) {
      problems.push({
        path: ['roles', name],
        atKey: true,
        message: 'has no command, and neither has the job: write `command: node train.ts`',
      });
    }
    for (const resource of Object.keys(role.resources)) {
      const meant = meantResource(resource);
      if (meant === undefined) continue;
      problems.push({
        path: ['roles', name, 'resources', resource],
        atKey: true,
        message: `is no resource type; did you mean \`${meant}\`?`,
      });
    }
    if (role.sidecar && role.untracked) {
      problems.push({ path: ['roles', name, 'untracked'], message: 'a role is either sidecar or untracked' });
    }
    if (role.chief === true && (role.sidecar || role.untracked)) {
      problems.push({
        path: ['roles', name, 'chief'],
        message: 'the chief must be tracked: remove sidecar and untracked, or choose another role',
      });
    }
    if (role.ranked === true && (role.sidecar || role.untracked)) {
      problems.push({
        path: ['roles', name, 'ranked'],
        message: 'only tracked roles take part in all-reduce: remove sidecar and untracked',
      });
    }
  }
  const chiefs = names.filter((name) => file.roles[name]?.chief === true);
  for (const name of chiefs.slice(1)) {
    problems.push({ path: ['roles', name, 'chief'], message: `only one role can be the chief, and \`${chiefs[0]}\` is already` });
  }
  if (names.length > 0 && names.every((name) => file.roles[name]?.sidecar || file.roles[name]?.untracked || isServing(file, name))) {
    problems.push({
      path: ['roles'],
      atKey: true,
      message: 'at least one role must be tracked: nothing would decide when the job is over',
    });
  }
  return problems;
}

function toJob(file: JobFile, folder: string): Job {
  const names = Object.keys(file.roles);
  const chief = chiefOf(file);
  const roles = names.map((name): Role => {
    const role = file.roles[name] as JobFile['roles'][string];
    const { memory, vcores, gpus, ...other } = role.resources;
    const serves = isServing(file, name);
    const tracking = role.sidecar ? 'sidecar' : role.untracked || serves ? 'untracked' : 'tracked';
    return {
      name,
      instances: role.instances.min,
      maxInstances: role.instances.max,
      resources: { memoryMb: memory, vcores, gpus, other },
      command: role.command ?? file.command ?? '',
      env: role.env,
      nodeLabel: role.nodeLabel ?? null,
      restart: role.restart,
      tracking,
      chief: name === chief,
      ranked: isRanked(file, name, role),
      servesParameters: serves,
    };
  });
  return {
    name: file.name,
    queue: file.queue,
    source: file.source === undefined ? null : { path: resolvePath(file.source.path, folder), exclude: file.source.exclude },
    framework: file.framework,
    runtime: file.runtime,
    data: Object.fromEntries(Object.entries(file.data).map(([name, place]) => [name, isUri(place) ? place : resolvePath(place, folder)])),
    env: file.env,
    roles,
    success: file.success,
    gang: { timeoutMs: file.gang.timeout },
    heartbeat: { intervalMs: file.heartbeat.interval, missed: file.heartbeat.missed },
    checkpoint: { dir: file.checkpoint.dir ?? null, everySteps: file.checkpoint.every, keep: file.checkpoint.keep },
    tensorboard: { logdir: file.tensorboard.logdir ?? null, serve: file.tensorboard.serve, memoryMb: file.tensorboard.memory },
    strategy: file.strategy,
    timeoutMs: file.timeout ?? null,
    acls: file.acls,
    master: { memoryMb: file.master.memory, vcores: file.master.vcores, nodeLabel: file.master.nodeLabel ?? null },
    tags: file.tags,
  };
}

function resolvePath(path: string, folder: string): string {
  if (path === '~' || path.startsWith('~/')) return resolve(homedir(), path.slice(2));
  return isAbsolute(path) ? resolve(path) : resolve(folder, path);
}
