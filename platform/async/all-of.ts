/** Like `Promise.all`, but for an object: each value of the result has the name of its promise. Rejects with the first rejection. */
export async function allOf<T extends Readonly<Record<string, unknown>>>(
  work: T,
): Promise<{ readonly [Name in keyof T]: Awaited<T[Name]> }> {
  const names = Object.keys(work);
  const values = await Promise.all(Object.values(work));
  return Object.fromEntries(names.map((name, at) => [name, values[at]])) as { readonly [Name in keyof T]: Awaited<T[Name]> };
}
