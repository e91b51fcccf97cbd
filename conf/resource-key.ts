import { suggest } from './suggest.ts';

const RESOURCE_KEYS: readonly string[] = ['memory', 'vcores', 'gpus'];
/** What YARN and other systems call them. */
const OTHER_NAMES: ReadonlyMap<string, string> = new Map([
  ['yarn.io/gpu', 'gpus'],
  ['mem', 'memory'],
  ['ram', 'memory'],
  ['cpu', 'vcores'],
  ['cpus', 'vcores'],
  ['cores', 'vcores'],
]);

/** The key that was meant by one that would name a YARN resource type which nobody has; undefined for any other. */
export function meantResource(key: string): string | undefined {
  return RESOURCE_KEYS.includes(key) ? undefined : (OTHER_NAMES.get(key) ?? suggest(key, RESOURCE_KEYS));
}
