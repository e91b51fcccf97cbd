/** Returns the name of a rank's task in messages, for example `worker:1`, or `rank 1` if the names are unknown. */
export function rankName(rank: number, names: readonly string[] | undefined): string {
  return names?.[rank] ?? `rank ${rank}`;
}
