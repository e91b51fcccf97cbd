/**
 * Runs `action` for all items, with at most `most` calls at the same time. Returns the results in the same order as the items. Stops at the
 * first failure.
 */
export async function severalAtOnce<Item, Result>(
  items: readonly Item[],
  most: number,
  action: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  for (let at = 0; at < items.length; at += most) {
    results.push(...(await Promise.all(items.slice(at, at + most).map(action))));
  }
  return results;
}
