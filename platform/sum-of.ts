/** Adds records of amounts key by key. A missing amount counts as 0. */
export function sumOf(all: readonly Readonly<Partial<Record<string, number>>>[]): Record<string, number> {
  const sum: Record<string, number> = {};
  for (const amounts of all) {
    for (const [name, amount] of Object.entries(amounts)) {
      sum[name] = (sum[name] ?? 0) + (amount ?? 0);
    }
  }
  return sum;
}
