/** Checks one property. Prints `NAME ok` if it holds, otherwise `NAME: the error`. */
export async function holds(name: string, body: () => unknown): Promise<void> {
  try {
    await body();
    console.log(`${name} ok`);
  } catch (error) {
    console.log(`${name}: ${(error as Error).message}`);
  }
}

export function equal(actual: unknown, expected: unknown): void {
  if (JSON.stringify(actual) !== JSON.stringify(expected)) {
    throw new Error(`${JSON.stringify(actual)} instead of ${JSON.stringify(expected)}`);
  }
}
