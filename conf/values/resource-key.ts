import { suggest } from '../../platform/suggest.ts';

/** Resources with a key of their own in job.yaml and in the site file. */
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
 * YARN's own rule (ResourceUtils): a name with an optional namespace. It excludes `:`, `+` and `=`, which separate fields of an application
 * tag.
 */
const RESOURCE_TYPE = /^([A-Za-z0-9](-*[A-Za-z0-9])*(\.[A-Za-z0-9](-*[A-Za-z0-9])*)*\/)?[A-Za-z][\w.-]*$/;
const LONGEST = 64;

/** The key that the user probably meant by an unknown resource type; undefined for any other key. */
export function meantResource(key: string): string | undefined {
  return RESOURCE_KEYS.includes(key) ? undefined : (OTHER_NAMES.get(key) ?? suggest(key, RESOURCE_KEYS));
}

/**
 * Why a key cannot name another resource type; undefined for a valid one. A second name for a resource with a key of its own, or for the
 * number of tasks, would be requested from YARN without being counted by quotas.
 */
export function otherResourceProblem(key: string): string | undefined {
  if (RESOURCE_KEYS.includes(key)) {
    return `is not another resource type: \`${key}\` has a key of its own`;
  }
  const meant = meantResource(key);
  if (meant !== undefined) {
    return `is not a resource type; did you mean \`${meant}\`?`;
  }
  if (key === 'instances') {
    return 'is not a resource type: write `instances` beside `resources`, not within it';
  }
  if (key.length > LONGEST || !RESOURCE_TYPE.test(key)) {
    return `is not a valid name of a resource type (letters, digits, . _ - and a namespace, such as yarn.io/fpga; at most ${LONGEST} characters)`;
  }
  return undefined;
}

/** The same check for a key in job.yaml or the site file, where resources with a key of their own are allowed too. */
export function resourceKeyProblem(key: string): string | undefined {
  return RESOURCE_KEYS.includes(key) ? undefined : otherResourceProblem(key);
}
