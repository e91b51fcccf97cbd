/** Returns true for a URI with a scheme, for example `hdfs://host/data` or `file:/data`. */
export function isUri(place: string): boolean {
  return /^[a-z][a-z0-9+.-]+:\//i.test(place);
}
