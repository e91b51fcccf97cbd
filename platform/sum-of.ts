/** Adds records of amounts key by key. A missing amount counts as 0. */
export function sumOf(all: readonly Readonly<Partial<Record<string, number>>>[]): Record<string, number> {
  // A map, because names such as `constructor` are also properties of every object.
  const sum = new Map<string, number>();
  for (const amounts of all) {
    for (const [name, amount] of Object.entries(amounts)) {
      sum.set(name, (sum.get(name) ?? 0) + (amount ?? 0));
    }
  }
  return Object.fromEntries(sum);
}
