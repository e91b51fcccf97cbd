import { plainKey, withNamesOf } from './key-places.ts';
import type { YamlPath } from './yaml-document.ts';

/** Keys of other systems and of other places in job.yaml that people write in a role, with the key to write instead. */
const IN_ROLE: ReadonlyMap<string, (role: string) => string> = new Map<string, (role: string) => string>([
  ['ranked', () => 'write `kind: independent` for a role without ranks, `kind: gang` for one with ranks'],
  ['untracked', () => 'write `kind: service`'],
  ['sidecar', () => 'write `kind: sidecar`'],
  ['chief', (role) => `write \`chief: ${role}\` next to \`roles\``],
  ['replicas', () => 'write `instances`'],
  ['retryOn', () => 'write `restart: {onExitCodes: [...]}`'],
  ['restartPolicy', () => 'write `restart: {policy: on-failure}` or `restart: {policy: never}`'],
  ['timeLimit', () => 'write `timeout`'],
  ...['policy', 'maxRestarts', 'onExitCodes'].map((key): [string, () => string] => [key, () => 'write it under `restart`']),
]);

const IN_JOB: ReadonlyMap<string, string> = new Map([
  ...['master', 'tensorboard'].flatMap((container) =>
    ['memory', 'vcores'].map((key): [string, string] => [`${container}.${key}`, 'write it under `resources`']),
  ),
  ['success', 'write `successPolicy`'],
  ['strategy.wire', 'write `wire: {dtype: ...}` next to `strategy`'],
  ['strategy.wireSecurity', 'write `wire: {security: ...}` next to `strategy`'],
  ['wireSecurity', 'write `wire: {security: ...}`'],
  ['maxRestarts', 'write it under `restart`'],
]);

/** Words of other systems, in the spelling of `plainKey`, with the keys to write instead. */
const FOREIGN_WORDS: Readonly<Record<string, readonly string[]>> = {
  'roles.ROLE.instances': [
    'workers',
    'numworkers',
    'nworkers',
    'replicas',
    'numreplicas',
    'nodes',
    'numnodes',
    'nnodes',
    'count',
    'parallelism',
  ],
  'roles.ROLE.resources.vcores': ['cpu', 'cpus', 'cores', 'numcpus', 'vcpus'],
  'roles.ROLE.resources.gpus': ['gpu', 'numgpus', 'ngpus'],
  'roles.ROLE.resources.memory': ['mem', 'ram', 'memorymb'],
  'roles.ROLE.docker.image': ['image', 'dockerimage', 'container', 'containerimage'],
  'roles.ROLE.after': ['dependson', 'needs'],
  'roles.ROLE.nodeLabel': ['nodeselector', 'label'],
  roles: ['tasks', 'taskgroups', 'groups'],
  processesPerTask: ['nprocpernode', 'nproc', 'slots', 'slotspertask'],
  'python.requirements': ['pip', 'pippackages', 'packages', 'dependencies'],
  source: ['workingdir', 'workdir', 'cwd', 'srcdir', 'codedir'],
  command: ['cmd', 'entrypoint', 'script', 'program', 'run', 'args', 'executes'],
  env: ['environment', 'envvars', 'variables', 'runtimeenv'],
  data: ['dataset', 'datasets', 'inputs'],
  queue: ['partition'],
  'restart.maxRestarts': ['retries', 'maxretries', 'backofflimit'],
};

const KEY_OF_WORD: ReadonlyMap<string, string> = new Map(
  Object.entries(FOREIGN_WORDS).flatMap(([key, words]) => words.map((word): [string, string] => [word, key])),
);

/** Returns the key that a word of another system stands for, at the top level, in a role or in the role's resources. */
function keyOfWord(path: readonly string[]): string | undefined {
  const isInRole = path[0] === 'roles' && (path.length === 3 || (path.length === 4 && path[2] === 'resources'));
  const key = path.length === 1 || isInRole ? KEY_OF_WORD.get(plainKey(path.at(-1) ?? '')) : undefined;
  return key === undefined ? undefined : withNamesOf(key.split('.'), isInRole ? path : []).join('.');
}

/** Returns the mistake in a key that job.yaml does not have, if the key to write instead is known. Returns undefined for all other keys. */
export function foreignKeyProblem(path: YamlPath): string | undefined {
  const [first, role = '', key = '', ...rest] = path.map(String);
  const isInRole = first === 'roles' && rest.length === 0;
  const own = isInRole ? IN_ROLE.get(key)?.(role) : IN_JOB.get(path.join('.'));
  const meant = keyOfWord(path.map(String));
  const advice = own ?? (meant === undefined ? undefined : `write \`${meant}\``);
  return advice === undefined ? undefined : `is not a known key: ${advice}`;
}
