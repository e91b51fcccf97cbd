import type { Role } from '../job.ts';
import type { JobYaml } from '../job-schema.ts';
import { fileProblems } from '../shipped-files.ts';
import { isUri } from '../values/is-uri.ts';
import type { YamlPath } from '../yaml-document.ts';
import type { YamlProblem } from '../yaml-file.ts';
import { type OrderedRole, orderProblems } from './role-order.ts';
import { chiefOf, isRanked, isServing, strategyProblems, withStrategyRoles } from './strategy-roles.ts';

// Rules of job.yaml for keys that depend on each other.

/** Keys of the job or of a role that do not affect what these rules and those for commands say about other keys. */
const INDEPENDENT: ReadonlySet<unknown> = new Set(
  [
    ['name', 'queue', 'nodeLabel', 'priority', 'tags', 'acls', 'kerberos', 'remoteAccess', 'runtime', 'python', 'docker', 'master'],
    ['data', 'files', 'archives', 'env', 'checkpoint', 'tensorboard', 'timeout', 'timeLimit', 'heartbeat', 'gang', 'resources'],
  ].flat(),
);

export function isIndependent(path: YamlPath): boolean {
  const [first, _role, ...own] = path;
  const [key, inner] = first === 'roles' ? own : path;
  // The number of GPUs determines how many processes a task runs.
  return INDEPENDENT.has(key) && !(key === 'resources' && inner === 'gpus');
}

function schemeProblems({ checkpoint, tensorboard, data }: JobYaml): YamlProblem[] {
  const places: (readonly [YamlProblem['path'], string | undefined])[] = [
    [['checkpoint', 'dir'], checkpoint.dir],
    [['tensorboard', 'logdir'], tensorboard.logdir],
    ...Object.entries(data).map(([name, place]) => [['data', name], place] as const),
  ];
  return places.flatMap(([path, place]) => {
    if (place === undefined || !isUri(place) || /^(hdfs|webhdfs|swebhdfs|viewfs|s3|s3a|s3n|file):/i.test(place)) {
      return [];
    }
    return [
      {
        path,
        message: `tony-ts does not support ${place.slice(0, place.indexOf(':'))} storage: write an hdfs://, webhdfs://, swebhdfs://, viewfs://, s3:// or file:// URI, or a path`,
      },
    ];
  });
}

/** Reports mistakes that the schema cannot detect. */
export function meaningProblems(file: JobYaml): YamlProblem[] {
  const problems = [...strategyProblems(file), ...schemeProblems(file), ...fileProblems(file)];
  const names = Object.keys(file.roles);
  const complete = withStrategyRoles(file);
  if (names.length === 0) {
    problems.push({ path: ['roles'], message: 'at least one role is required' });
  }
  for (const name of names) {
    const role = file.roles[name];
    if (role === undefined) {
      continue;
    }
    const kept = complete.roles[name];
    if (kept !== undefined && kept.command === undefined && file.command === undefined) {
      problems.push({
        path: ['roles', name],
        atKey: true,
        message: 'neither the role nor the job sets a command: write `command: node train.ts`',
      });
    }
    if (role.restart.policy === 'never' && role.retryOn !== undefined) {
      problems.push({
        path: ['roles', name, 'retryOn'],
        message: 'has no effect with `restart.policy: never`: remove one of the two keys',
      });
    }
    if (role.sidecar && role.untracked) {
      problems.push({ path: ['roles', name, 'untracked'], message: 'a role cannot be both sidecar and untracked' });
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
        message: 'only tracked roles can take part in all-reduce: remove sidecar and untracked',
      });
    }
  }
  problems.push(
    ...orderProblems(orderedRoles(complete), complete.success).map(({ path, message }) => ({ path: ['roles', ...path], message })),
  );
  const chiefs = names.filter((name) => file.roles[name]?.chief === true);
  for (const name of chiefs.slice(1)) {
    problems.push({ path: ['roles', name, 'chief'], message: `only one role can be the chief, and \`${chiefs[0]}\` is already the chief` });
  }
  // Ignore roles that the strategy removes. If no role remains, `strategyProblems` reports the mistake.
  const remaining = Object.entries(complete.roles);
  if (remaining.length > 0 && remaining.every(([name, role]) => role.sidecar || role.untracked || isServing(file, name))) {
    problems.push({
      path: ['roles'],
      atKey: true,
      message: 'at least one role must be tracked, because tracked tasks decide when the job ends',
    });
  }
  return problems;
}

export function trackingOf(file: JobYaml, name: string): Role['tracking'] {
  const role = file.roles[name];
  return role?.sidecar ? 'sidecar' : role?.untracked || isServing(file, name) ? 'untracked' : 'tracked';
}

function orderedRoles(file: JobYaml): OrderedRole[] {
  const chief = chiefOf(file);
  return Object.entries(file.roles).map(([name, role]) => ({
    name,
    after: role.after ?? [],
    endAfter: role.endAfter === undefined ? null : { roles: role.endAfter.role },
    tracking: trackingOf(file, name),
    chief: name === chief,
    ranked: isRanked(name, role),
    servesParameters: isServing(file, name),
  }));
}
