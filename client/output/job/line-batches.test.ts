import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { LineBatches } from './program-lines.ts';

test('the lines of one turn form one batch, in order', async () => {
  const shown: (readonly number[])[] = [];
  const batches = new LineBatches<number>(async (lines) => void shown.push(lines));
  for (const line of [1, 2, 3]) {
    await batches.add(line);
  }
  await batches.flush();
  await batches.add(4);
  await batches.flush();
  expect(shown).toEqual([[1, 2, 3], [4]]);
});

test('a slow output holds back the source, and receives every line in order', async () => {
  const shown: number[] = [];
  let release = (): void => undefined;
  const batches = new LineBatches<number>(async (lines) => {
    await new Promise<void>((resolve) => {
      release = resolve;
    });
    shown.push(...lines);
  });
  let added = 0;
  const source = (async () => {
    for (; added < 10_000; added += 1) {
      await batches.add(added);
    }
    await batches.flush();
  })();
  let most = 0;
  let isDone = false;
  void source.then(() => {
    isDone = true;
  });
  while (!isDone) {
    await turn();
    most = Math.max(most, added - shown.length);
    release();
  }
  expect(most).toBeLessThanOrEqual(512);
  expect(shown).toEqual(Array.from({ length: 10_000 }, (_, at) => at));
});

test('the source receives the error of a failed output', async () => {
  const batches = new LineBatches<number>(() => Promise.reject(new Error('closed')));
  await batches.add(1);
  await expect(batches.flush()).rejects.toThrow('closed');
  await expect(batches.flush()).rejects.toThrow('closed');
});
