import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';

const linesOf = async (name: string) => (await readFile(new URL(`../../examples/mnist/${name}`, import.meta.url), 'utf8')).split('\n');

function commonLines(before: readonly string[], after: readonly string[]): number {
  let row = new Array<number>(after.length + 1).fill(0);
  for (const line of before) {
    const next = [0];
    after.forEach((other, index) => {
      next.push(line === other ? (row[index] as number) + 1 : Math.max(row[index + 1] as number, next[index] as number));
    });
    row = next;
  }
  return row.at(-1) as number;
}

test('a single-process script needs at most six changed lines to become a distributed one', async () => {
  const [before, after] = [await linesOf('single.ts'), await linesOf('train.ts')];
  const common = commonLines(before, after);
  expect(Math.max(before.length, after.length) - common).toBeLessThanOrEqual(6);
  expect(before.length).toBeGreaterThan(20);
});
