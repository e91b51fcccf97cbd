/**
 * Returns the part of a tensor name that identifies a weight in checkpoints: the index, without the variable's own name, which may differ
 * between programs.
 */
export function weightKey(name: string): string {
  return /^model:\d+:/.exec(name)?.[0] ?? name;
}
