import type { Job, Role } from '../job.ts';
import { type JobPart, type RolePart, roleValues } from '../job-part.ts';
import { type DockerContainer, writtenDocker } from '../values/docker.ts';
import { writtenDuration, writtenMemory } from '../values/units.ts';

/** Job setting that a final value in the site file overrides. */
export interface FinalValue {
  /** Key in job.yaml, for example `heartbeat.interval`. */
  readonly path: readonly string[];
  /** Value that the job sets, in job.yaml syntax, or null if the job sets none. */
  readonly was: string | null;
  readonly is: string;
}

type Path = readonly string[];

/** Paths in `Job` that differ from the job.yaml keys. */
const PLACES: Readonly<Record<string, Path>> = {
  'gang.timeout': ['gang', 'timeoutMs'],
  'heartbeat.interval': ['heartbeat', 'intervalMs'],
  'checkpoint.every': ['checkpoint', 'everyMs'],
  'tensorboard.resources.memory': ['tensorboard', 'resources', 'memoryMb'],
  timeout: ['timeoutMs'],
  'master.resources.memory': ['master', 'resources', 'memoryMb'],
  'master.failureWindow': ['master', 'failureWindowMs'],
  'master.startTimeout': ['master', 'startTimeoutMs'],
};
const DURATIONS: ReadonlySet<string> = new Set([
  'gang.timeout',
  'heartbeat.interval',
  'checkpoint.every',
  'timeout',
  'master.failureWindow',
  'master.startTimeout',
]);

/**
 * Applies the site file's final values to a job. Returns the new job and the overridden settings. The client calls this function before it
 * submits the job. The ApplicationMaster calls it to reject jobs whose settings differ from the final values.
 */
export function withFinalValues(job: Job, final: JobPart): { readonly job: Job; readonly changed: readonly FinalValue[] } {
  const { roles: _, checkpoint, ...rest } = final;
  const ofJob = checkpoint === undefined ? rest : { ...rest, checkpoint: wholeInterval(checkpoint) };
  const { job: programKept, changed: ofProgram } = withFinalProgram(job, final);
  const changed: FinalValue[] = [...ofProgram];
  let result = programKept;
  for (const { path, value } of leavesOf(ofJob)) {
    const place = PLACES[path.join('.')] ?? path;
    const was = valueAt(result, place);
    if (isSame(was, value)) {
      continue;
    }
    changed.push({ path, was: written(path, was), is: written(path, value) ?? 'nothing' });
    result = withValue(result, place, value);
  }
  const roles = job.roles.map((role) => {
    // Skip the role that tony-ts adds for TensorBoard, because its settings are fixed.
    if (role.spare) {
      return role;
    }
    const ofRole = withRoleValues(role, partOfRole(role, final), result.env);
    for (const value of ofRole.changed) {
      const [, , key, variable = ''] = value.path;
      const isInherited = key === 'env' && !Object.hasOwn(role.env, variable);
      changed.push(isInherited ? { ...value, was: job.env[variable] ?? null } : value);
    }
    return ofRole.role;
  });
  return { job: { ...result, roles }, changed };
}

/** A site file that says when jobs write checkpoints, by steps or by time, replaces both of the job's values. */
function wholeInterval(checkpoint: NonNullable<JobPart['checkpoint']>): object {
  const isSet = checkpoint.everySteps !== undefined || checkpoint.every !== undefined;
  return isSet ? { ...checkpoint, everySteps: checkpoint.everySteps ?? null, every: checkpoint.every ?? null } : checkpoint;
}

/** Variables of the ApplicationMaster that neither choose nor change the program that it runs. */
const HARMLESS_VARIABLE = /^(TZ|LANG|LANGUAGE|LC_[A-Z]+)$/;

/**
 * A final `runtime` fixes the program that runs the ApplicationMaster. Everything else that chooses this program is then final too: its
 * Docker image, and its environment variables, through which a job could load its own code (such as NODE_OPTIONS) or supply its own
 * ResourceManager (such as a proxy). With `runtime: system`, the PATH of the job also chooses the program.
 */
function withFinalProgram(job: Job, final: JobPart): { readonly job: Job; readonly changed: readonly FinalValue[] } {
  if (final.runtime === undefined) {
    return { job, changed: [] };
  }
  const { env, docker } = job.master;
  const isKept = (variable: string): boolean => HARMLESS_VARIABLE.test(variable) || Object.hasOwn(final.master?.env ?? {}, variable);
  const kept = Object.fromEntries(Object.entries(env).filter(([variable]) => isKept(variable)));
  const changed = Object.entries(env)
    .filter(([variable]) => !isKept(variable))
    .map(([variable, was]): FinalValue => ({ path: ['master', 'env', variable], was, is: NOT_SET }));
  const isOwnImage = docker !== null && final.master?.docker === undefined;
  if (isOwnImage) {
    changed.push({ path: ['master', 'docker'], was: writtenDocker(docker), is: writtenDocker(null) });
  }
  const { PATH, ...withoutPath } = job.env;
  const isOwnPath = PATH !== undefined && final.runtime === 'system' && final.env?.PATH === undefined;
  if (isOwnPath) {
    changed.push({ path: ['env', 'PATH'], was: PATH, is: NOT_SET });
  }
  const master = { ...job.master, env: kept, docker: isOwnImage ? null : docker };
  return { job: { ...job, master, env: isOwnPath ? withoutPath : job.env }, changed };
}

const NOT_SET = 'nothing';

/** Applies final values to one role. `env` contains the job's variables, which the role inherits. */
export function withRoleValues(
  role: Role,
  part: RolePart,
  env: Job['env'],
): { readonly role: Role; readonly changed: readonly FinalValue[] } {
  const changed: FinalValue[] = [];
  const { instances, ...others } = part;
  let result = role;
  const change = (path: Path, was: string | null, is: string, after: Role): void => {
    changed.push({ path: ['roles', role.name, ...path], was, is });
    result = after;
  };
  if (instances !== undefined && (role.instances !== instances || role.maxInstances !== instances)) {
    const { instances: min, maxInstances: max } = role;
    const was = min === max ? String(min) : `{min: ${min}, max: ${max}}`;
    change(['instances'], was, String(instances), { ...role, instances, maxInstances: instances });
  }
  for (const { path, value } of leavesOf(others)) {
    const place = placeInRole(path);
    const was = valueAt(result, place) ?? (path[0] === 'env' ? valueAt(env, path.slice(1)) : null);
    // A missing amount of another resource type is equivalent to 0.
    if (isSame(was ?? (place[1] === 'other' ? 0 : null), value)) {
      continue;
    }
    change(path, written(path, was), written(path, value) ?? '', withValue(result, place, value));
  }
  return { role: result, changed };
}

/** Returns a sentence for the user, for example `the site file sets heartbeat.interval to 3s (job.yaml: 1s)`. */
export function describeFinalValue({ path, was, is }: FinalValue, source = 'job.yaml'): string {
  return `the site file sets ${path.join('.')} to ${is} (${source}: ${was ?? 'nothing'})`;
}

/** Returns the final values for a role. Final variables for the whole job also override variables that the role sets. */
function partOfRole(role: Role, { env = {}, roles = {} }: JobPart): RolePart {
  const values = roleValues(roles, role.name);
  const shadowed = Object.entries(env).filter(([variable]) => Object.hasOwn(role.env, variable));
  return { ...values, env: { ...Object.fromEntries(shadowed), ...values.env } };
}

function placeInRole(path: Path): Path {
  if (path[0] !== 'resources') {
    return path;
  }
  const resource = path[1] ?? '';
  if (resource === 'memory') {
    return ['resources', 'memoryMb'];
  }
  return resource === 'vcores' || resource === 'gpus' ? path : ['resources', 'other', resource];
}

/** Returns every value in nested mappings with its path. Lists and Docker containers are single values. */
function leavesOf(part: object, above: Path = []): { readonly path: Path; readonly value: unknown }[] {
  return Object.entries(part).flatMap(([key, value]: [string, unknown]) => {
    const path = [...above, key];
    if (value === undefined) {
      return [];
    }
    const isMapping = typeof value === 'object' && value !== null && !Array.isArray(value) && key !== 'docker';
    return isMapping ? leavesOf(value, path) : [{ path, value }];
  });
}

function valueAt(from: object, path: Path): unknown {
  let value: unknown = from;
  for (const key of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) {
      return undefined;
    }
    value = (value as Readonly<Record<string, unknown>>)[key];
  }
  return value;
}

function withValue<T extends object>(into: T, [key = '', ...rest]: Path, value: unknown): T {
  const below = valueAt(into, [key]);
  const replaced = rest.length === 0 ? value : withValue(typeof below === 'object' && below !== null ? below : {}, rest, value);
  return { ...into, [key]: replaced };
}

function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

function written(path: Path, value: unknown): string | null {
  if (path.at(-1) === 'docker' && !path.includes('env')) {
    return writtenDocker(value as DockerContainer | null);
  }
  if (value === undefined || value === null) {
    return null;
  }
  if (Array.isArray(value)) {
    return `[${value.join(', ')}]`;
  }
  if (typeof value !== 'number') {
    return String(value);
  }
  if (DURATIONS.has(path.join('.'))) {
    return writtenDuration(value);
  }
  return path.at(-1) === 'memory' && path[0] !== 'env' ? writtenMemory(value) : String(value);
}
