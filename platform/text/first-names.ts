/**
 * Lists the first names, and the number of remaining names, for example `a, b and 3 more`.
 * @param count number of all names, if `names` contains only the first ones
 */
export function firstNames(names: readonly string[], most: number, count = names.length): string {
  const first = names.slice(0, most);
  const others = count - first.length;
  return others > 0 ? `${first.join(', ')} and ${others} more` : first.join(', ');
}
