import { frameworkOf } from '../frameworks.ts';
import type { JobYaml } from '../job-schema.ts';
import type { YamlProblem } from '../yaml-file.ts';

// Adapts a job's roles to its strategy. With `parameter-server`, the tasks of the `ps` role store the weights. With `all-reduce`, tony-ts
// ignores the `ps` role, so that the same job.yaml works with both strategies.

type RoleFile = JobYaml['roles'][string];

/** Name of the role whose tasks store the weights in the `parameter-server` strategy. */
export const SERVING_ROLE = 'ps';

/** Roles whose tasks have no rank by default. */
const UNRANKED_ROLES: ReadonlySet<string> = new Set(['evaluator', 'ps', 'tensorboard']);

export function isServing(file: JobYaml, name: string): boolean {
  return file.strategy.type === 'parameter-server' && name === SERVING_ROLE;
}

export function isRanked(name: string, role: RoleFile): boolean {
  return role.ranked ?? (!role.sidecar && !role.untracked && !UNRANKED_ROLES.has(name));
}

/** Returns the name of the role whose task 0 is the chief. */
export function chiefOf(file: JobYaml): string | undefined {
  const names = Object.keys(file.roles);
  const tracked = names.filter((name) => !file.roles[name]?.sidecar && !file.roles[name]?.untracked && !isServing(file, name));
  return (
    names.find((name) => file.roles[name]?.chief === true) ??
    ['chief', 'worker'].find((name) => tracked.includes(name) && file.roles[name]?.chief !== false) ??
    tracked[0]
  );
}

/** Adds roles that the strategy requires, and removes roles that it does not use. */
export function withStrategyRoles(file: JobYaml): JobYaml {
  if (frameworkOf(file.framework).trainingLibrary !== 'always') {
    return file;
  }
  const { [SERVING_ROLE]: given, ...others } = file.roles;
  if (file.strategy.type === 'all-reduce') {
    return given === undefined || hasOwnMeaning(given) ? file : { ...file, roles: others };
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
  const { nodeLabel: _, after: _after, endAfter: _endAfter, timeLimit: _timeLimit, retryOn: _retryOn, ...alike } = chief;
  const serving: RoleFile = {
    ...alike,
    instances: { min: 1, max: 1 },
    resources: { memory, vcores, gpus: 0 },
    chief: false,
    ranked: false,
  };
  return { ...file, roles: { ...file.roles, [SERVING_ROLE]: serving } };
}

/** Returns true for a `ps` role whose settings in job.yaml show that it does not store weights. */
function hasOwnMeaning(role: RoleFile): boolean {
  return role.command !== undefined || role.untracked || role.sidecar || role.ranked === true || role.chief === true;
}

export function strategyProblems(file: JobYaml): YamlProblem[] {
  const problems: YamlProblem[] = [];
  const names = Object.keys(file.roles);
  const ps = file.roles[SERVING_ROLE];
  const { trainingLibrary } = frameworkOf(file.framework);
  const refuse = (path: YamlProblem['path'], message: string) => problems.push({ path, message });
  if (file.strategy.type === 'parameter-server') {
    const serving = ['roles', SERVING_ROLE];
    if (ps?.sidecar) {
      refuse([...serving, 'sidecar'], 'parameter servers hold the weights, so the job cannot continue without them');
    }
    if (ps?.chief) {
      refuse([...serving, 'chief'], 'a parameter server cannot be the chief: choose the role that trains');
    }
    if (ps?.ranked) {
      refuse([...serving, 'ranked'], 'a parameter server has no rank, because it serves the workers');
    }
    if (trainingLibrary === 'always' && !names.some((name) => name !== SERVING_ROLE && isRanked(name, file.roles[name] as RoleFile))) {
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
    } else if (!isRanked(name, role)) {
      refuse(path, 'only a ranked role can grow and shrink: write one number, or `ranked: true`');
    } else if (elastic[0] !== name) {
      refuse(path, `only one role can grow and shrink, and \`${elastic[0]}\` already does`);
    }
  }
  return problems;
}

function isElastic(role: RoleFile | undefined): boolean {
  return role !== undefined && role.instances.max > role.instances.min;
}
