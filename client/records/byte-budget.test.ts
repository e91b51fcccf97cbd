import { expect, test } from 'vitest';
import { ByteBudget } from './job-record.ts';

test('work waits in order until its bytes fit; work larger than the budget runs alone', async () => {
  const budget = new ByteBudget(10);
  const running = new Map<string, () => void>();
  const done: string[] = [];
  const begin = (name: string, bytes: number): Promise<void> =>
    budget
      .use(bytes, () => new Promise<void>((resolve) => running.set(name, resolve)))
      .then(() => {
        running.delete(name);
        done.push(name);
      });
  const all = [begin('a', 6), begin('b', 4), begin('huge', 100), begin('c', 1)];
  expect([...running.keys()]).toEqual(['a', 'b']);
  running.get('a')?.();
  await all[0];
  // The large task still does not fit, and later tasks must not overtake it.
  expect([...running.keys()]).toEqual(['b']);
  running.get('b')?.();
  await all[1];
  expect([...running.keys()]).toEqual(['huge']);
  running.get('huge')?.();
  await all[2];
  running.get('c')?.();
  await Promise.all(all);
  expect(done).toEqual(['a', 'b', 'huge', 'c']);
});

test('failed work releases its bytes', async () => {
  const budget = new ByteBudget(1);
  await expect(budget.use(1, () => Promise.reject(new Error('no')))).rejects.toThrow('no');
  expect(await budget.use(1, async () => 'yes')).toBe('yes');
});
