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

/** Returns the mistake in a key that job.yaml does not have, if the key to write instead is known. Returns undefined for all other keys. */
export function foreignKeyProblem(path: YamlPath): string | undefined {
  const [first, role = '', key = '', ...rest] = path.map(String);
  const isInRole = first === 'roles' && rest.length === 0;
  const advice = isInRole ? IN_ROLE.get(key)?.(role) : IN_JOB.get(path.join('.'));
  return advice === undefined ? undefined : `is not a known key: ${advice}`;
}
