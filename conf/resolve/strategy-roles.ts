import { frameworkOf } from '../frameworks.ts';
import { isTracked, type RoleKind } from '../job.ts';
import type { JobYaml } from '../job-schema.ts';
import type { YamlProblem } from '../yaml-file.ts';

// Adapts a job's roles to its strategy. With `parameter-server`, the tasks of the `ps` role store the weights. With `all-reduce`, tony-ts
// ignores the `ps` role, so that the same job.yaml works with both strategies.

type RoleFile = JobYaml['roles'][string];

/** Name of the role whose tasks store the weights in the `parameter-server` strategy. */
export const SERVING_ROLE = 'ps';

/** Roles whose tasks are independent by default. */
const INDEPENDENT_ROLES: ReadonlySet<string> = new Set(['evaluator', SERVING_ROLE, 'tensorboard']);

export function isServing(file: JobYaml, name: string): boolean {
  return file.strategy.type === 'parameter-server' && name === SERVING_ROLE;
}

export function kindOf(file: JobYaml, name: string): RoleKind {
  const byName = isServing(file, name) ? 'service' : INDEPENDENT_ROLES.has(name) ? 'independent' : 'gang';
  return file.roles[name]?.kind ?? byName;
}

/** Returns the name of the role whose task 0 is the chief. */
export function chiefOf(file: JobYaml): string | undefined {
  const tracked = Object.keys(file.roles).filter((name) => isTracked({ kind: kindOf(file, name) }));
  return file.chief ?? ['chief', 'worker'].find((name) => tracked.includes(name)) ?? tracked[0];
}

/** Adds roles that the strategy requires, and removes roles that it does not use. */
export function withStrategyRoles(file: JobYaml): JobYaml {
  if (frameworkOf(file.framework).trainingLibrary !== 'always') {
    return file;
  }
  const { [SERVING_ROLE]: given, ...others } = file.roles;
  if (file.strategy.type === 'all-reduce') {
    return given === undefined || hasOwnMeaning(file, given) ? file : { ...file, roles: others };
  }
  const chief = file.roles[chiefOf(file) ?? ''];
  if (chief === undefined) {
    return file;
  }
  // By default, a parameter server runs the same command as the chief. The training library behaves differently in the `ps` role.
  if (given !== undefined) {
    const command = given.command ?? chief.command ?? file.command;
    return { ...file, roles: { ...file.roles, [SERVING_ROLE]: { ...given, ...(command !== undefined && { command }) } } };
  }
  const { memory, vcores } = chief.resources;
  const { kind: _kind, nodeLabel: _, after: _after, endAfter: _endAfter, timeout: _timeout, ...alike } = chief;
  const { onExitCodes: _onExitCodes, ...restart } = chief.restart;
  const serving: RoleFile = { ...alike, instances: { min: 1, max: 1 }, resources: { memory, vcores, gpus: 0 }, restart };
  return { ...file, roles: { ...file.roles, [SERVING_ROLE]: serving } };
}

/** Returns true for a `ps` role whose settings in job.yaml show that it does not store weights. */
function hasOwnMeaning(file: JobYaml, role: RoleFile): boolean {
  return role.command !== undefined || role.kind !== undefined || file.chief === SERVING_ROLE;
}

export function strategyProblems(file: JobYaml): YamlProblem[] {
  const problems: YamlProblem[] = [];
  const names = Object.keys(file.roles);
  const ps = file.roles[SERVING_ROLE];
  const { trainingLibrary } = frameworkOf(file.framework);
  const refuse = (path: YamlProblem['path'], message: string) => problems.push({ path, message });
  if (file.strategy.type === 'parameter-server') {
    if (ps?.kind !== undefined && ps.kind !== 'service') {
      refuse(
        ['roles', SERVING_ROLE, 'kind'],
        'parameter servers hold the weights and serve the gang: write `kind: service`, or remove the key',
      );
    }
    if (file.wire.dtype !== 'float32') {
      refuse(['wire', 'dtype'], 'applies only to strategy all-reduce: parameter servers and workers exchange float32; remove the key');
    }
    if (trainingLibrary === 'always' && !names.some((name) => name !== SERVING_ROLE && kindOf(file, name) === 'gang')) {
      refuse(['strategy'], 'no role would train: add a `worker` role in addition to the `ps` role');
    }
    if (trainingLibrary === 'possibly' && ps === undefined) {
      refuse(['strategy'], 'add a `ps` role: tony-ts adds it only for framework tfjs');
    }
  } else if (names.length > 0 && Object.keys(withStrategyRoles(file).roles).length === 0) {
    refuse(['roles'], 'no role would train: add a `worker` role in addition to the `ps` role');
  }
  const elastic = names.filter((name) => isElastic(file.roles[name]));
  for (const name of names) {
    const role = file.roles[name];
    if (role === undefined || role.instances.min === role.instances.max) {
      continue;
    }
    const path = ['roles', name, 'instances'];
    if (role.instances.max < role.instances.min) {
      refuse(path, `max (${role.instances.max}) is less than min (${role.instances.min}): swap them`);
    } else if (name === SERVING_ROLE && isServing(file, name)) {
      refuse(path, 'the number of parameter servers is fixed: write one number');
    } else if (kindOf(file, name) !== 'gang') {
      refuse(path, 'only a role of kind gang can grow and shrink: write one number, or `kind: gang`');
    } else if (elastic[0] !== name) {
      refuse(path, `only one role can grow and shrink, and \`${elastic[0]}\` already does`);
    }
  }
  return problems;
}

function isElastic(role: RoleFile | undefined): boolean {
  return role !== undefined && role.instances.max > role.instances.min;
}
