import { isTracked } from '../job.ts';
import type { JobYaml } from '../job-schema.ts';
import { fileProblems } from '../shipped-files.ts';
import { isUri } from '../values/is-uri.ts';
import type { YamlPath } from '../yaml-document.ts';
import type { YamlProblem } from '../yaml-file.ts';
import { type OrderedRole, orderProblems } from './role-order.ts';
import { chiefOf, isServing, kindOf, strategyProblems, withStrategyRoles } from './strategy-roles.ts';

// Rules of job.yaml for keys that depend on each other.

/** Keys of the job or of a role that do not affect what these rules and those for commands say about other keys. */
const INDEPENDENT: ReadonlySet<unknown> = new Set(
  [
    ['name', 'queue', 'nodeLabel', 'priority', 'tags', 'acls', 'kerberos', 'remoteAccess', 'runtime', 'python', 'docker', 'master'],
    ['data', 'files', 'archives', 'env', 'checkpoint', 'tensorboard', 'timeout', 'gracePeriod', 'heartbeat', 'gang', 'resources'],
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
    if (role.restart.policy === 'never' && role.restart.onExitCodes !== undefined) {
      problems.push({
        path: ['roles', name, 'restart', 'onExitCodes'],
        message: 'has no effect with `policy: never`: remove one of the two keys',
      });
    }
  }
  if (file.chief !== undefined && file.roles[file.chief] === undefined) {
    problems.push({ path: ['chief'], message: `there is no role \`${file.chief}\` (roles: ${names.join(', ')})` });
  } else if (file.chief !== undefined && !isTracked({ kind: kindOf(file, file.chief) })) {
    problems.push({
      path: ['chief'],
      message: `the job does not wait for role \`${file.chief}\` of kind ${kindOf(file, file.chief)}: choose a role of kind gang or independent`,
    });
  }
  problems.push(
    ...orderProblems(orderedRoles(complete), complete.successPolicy).map(({ path, message }) => ({ path: ['roles', ...path], message })),
  );
  // Ignore roles that the strategy removes. If no role remains, `strategyProblems` reports the mistake.
  const remaining = Object.keys(complete.roles);
  if (remaining.length > 0 && remaining.every((name) => !isTracked({ kind: kindOf(complete, name) }))) {
    problems.push({
      path: ['roles'],
      atKey: true,
      message: 'at least one role must be of kind gang or independent, because the job ends when the tasks of these roles have ended',
    });
  }
  return problems;
}

function orderedRoles(file: JobYaml): OrderedRole[] {
  const chief = chiefOf(file);
  return Object.entries(file.roles).map(([name, role]) => ({
    name,
    after: role.after ?? [],
    endAfter: role.endAfter === undefined ? null : { roles: role.endAfter.role },
    kind: kindOf(file, name),
    chief: name === chief,
    servesParameters: isServing(file, name),
  }));
}
