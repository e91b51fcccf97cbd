/** The key that identifies a weight in checkpoints. It contains the index but no name, because programs may name variables differently. */
export function weightKey(name: string): string {
  return /^model:\d+:/.exec(name)?.[0] ?? name;
}
