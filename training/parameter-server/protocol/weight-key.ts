/**
 * Returns the part of a tensor name that identifies a weight in checkpoints. The variable's own name is not part of the key, because it
 * may differ between programs.
 */
export function weightKey(name: string): string {
  return /^model:\d+:/.exec(name)?.[0] ?? name;
}
