import { suggest } from '../../platform/suggest.ts';

/** Resources that have dedicated keys in job.yaml and in the site file. */
const RESOURCE_KEYS: readonly string[] = ['memory', 'vcores', 'gpus'];
/** Names of these resources in YARN and other systems. */
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
 * YARN's rule for names of resource types (ResourceUtils): a name with an optional namespace. It excludes `:`, `+` and `=`, which separate
 * the fields of an application tag.
 */
const RESOURCE_TYPE = /^([A-Za-z0-9](-*[A-Za-z0-9])*(\.[A-Za-z0-9](-*[A-Za-z0-9])*)*\/)?[A-Za-z][\w.-]*$/;
const LONGEST = 64;

/** Returns the dedicated key that the user probably meant by `key`; undefined if `key` is correct or resembles none. */
export function meantResource(key: string): string | undefined {
  return RESOURCE_KEYS.includes(key) ? undefined : (OTHER_NAMES.get(key) ?? suggest(key, RESOURCE_KEYS));
}

/**
 * Explains why a key cannot name another resource type; undefined if it can. Other names for memory, vcores, gpus and instances are invalid,
 * because quotas would not count them.
 */
export function otherResourceProblem(key: string): string | undefined {
  if (RESOURCE_KEYS.includes(key)) {
    return `is not another resource type: \`${key}\` has a separate key`;
  }
  const meant = meantResource(key);
  if (meant !== undefined) {
    return `is not a resource type; did you mean \`${meant}\`?`;
  }
  if (key === 'instances') {
    return 'is not a resource type: write `instances` next to `resources`, not within it';
  }
  if (key.length > LONGEST || !RESOURCE_TYPE.test(key)) {
    return `is not a valid name of a resource type (letters, digits, . _ - and a namespace, such as yarn.io/fpga; at most ${LONGEST} characters)`;
  }
  return undefined;
}

/** Makes the same check for a key of `resources` in job.yaml or the site file, which may also be memory, vcores or gpus. */
export function resourceKeyProblem(key: string): string | undefined {
  return RESOURCE_KEYS.includes(key) ? undefined : otherResourceProblem(key);
}
