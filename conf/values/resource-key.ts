import { suggest } from '../../platform/text/suggest.ts';

const RESOURCE_KEYS: readonly string[] = ['memory', 'vcores', 'gpus'];
const OTHER_NAMES: ReadonlyMap<string, string> = new Map([
  ['yarn.io/gpu', 'gpus'],
  ['memory-mb', 'memory'],
  ['mem', 'memory'],
  ['ram', 'memory'],
  ['cpu', 'vcores'],
  ['cpus', 'vcores'],
  ['cores', 'vcores'],
]);
/**
 * YARN's pattern for the names of resource types, as in its ResourceUtils class. A name may have a namespace. The pattern excludes `:`, `+`
 * and `=`, which are separators in application tags.
 */
const RESOURCE_TYPE = /^([A-Za-z0-9](-*[A-Za-z0-9])*(\.[A-Za-z0-9](-*[A-Za-z0-9])*)*\/)?[A-Za-z][\w.-]*$/;
const LONGEST = 64;

/**
 * Returns the reason why a key cannot be the name of another resource type, or undefined if the name is valid. Rejects alternative names
 * for memory, vcores, gpus and instances, because quotas would not apply to them.
 */
export function otherResourceProblem(key: string): string | undefined {
  if (RESOURCE_KEYS.includes(key)) {
    return 'does not belong under `other`, because it has a separate key';
  }
  const meant = OTHER_NAMES.get(key) ?? suggest(key, RESOURCE_KEYS);
  if (meant !== undefined) {
    return `is not a resource type; did you mean \`${meant}\`?`;
  }
  if (key === 'instances') {
    return 'is not a resource type: write `instances` next to `resources`, not within it';
  }
  if (key.length > LONGEST || !RESOURCE_TYPE.test(key)) {
    return `is not a valid resource type name (letters, digits, . _ - and a namespace, such as yarn.io/fpga; at most ${LONGEST} characters)`;
  }
  return undefined;
}

/** Like `otherResourceProblem`, but also accepts memory, vcores and gpus. */
export function resourceKeyProblem(key: string): string | undefined {
  return RESOURCE_KEYS.includes(key) ? undefined : otherResourceProblem(key);
}

/** Returns the mistake in a key of `roles.NAME.resources` in job.yaml, or undefined for all other keys. */
export function resourceProblemAt([roles, , resources, key, ...rest]: readonly (string | number)[]): string | undefined {
  return roles === 'roles' && resources === 'resources' && key !== undefined && rest.length === 0
    ? resourceKeyProblem(String(key))
    : undefined;
}
