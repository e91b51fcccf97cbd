/** Lists the first names, and the number of remaining names, for example `a, b and 3 more`. */
export function firstNames(names: readonly string[], most: number): string {
  const others = names.length - most;
  return others > 0 ? `${names.slice(0, most).join(', ')} and ${others} more` : names.join(', ');
}
