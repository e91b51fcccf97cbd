/** A place that names its storage, rather than a path: `hdfs://host/data`, `file:/data`. */
export function isUri(place: string): boolean {
  return /^[a-z][a-z0-9+.-]+:\//i.test(place);
}
