import { suggest } from './suggest.ts';

const RESOURCE_KEYS: readonly string[] = ['memory', 'vcores', 'gpus'];

/** The key that was meant by one that would name a YARN resource type which nobody has; undefined for any other. */
export function meantResource(key: string): string | undefined {
  if (RESOURCE_KEYS.includes(key)) return undefined;
  return key === 'yarn.io/gpu' ? 'gpus' : suggest(key, RESOURCE_KEYS);
}
