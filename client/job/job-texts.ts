/** Returns every text in a value: the value itself, or the texts at any depth of a list or an object. */
export function textsIn(value: unknown): string[] {
  if (typeof value === 'string') {
    return [value];
  }
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

const CACHE_HASH = /(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])/g;

/** Returns the hashes of the cache entries that the texts name. */
export function cacheEntriesIn(texts: readonly string[]): string[] {
  return [...new Set(texts.flatMap((text) => text.match(CACHE_HASH) ?? []))];
}
