/** The key that identifies a weight: its index, because another program may name its variables differently. */
export function weightKey(name: string): string {
  return /^model:\d+:/.exec(name)?.[0] ?? name;
}
