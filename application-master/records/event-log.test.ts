import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { HistoryEntry } from '../../conf/status/status.ts';
import { EventLog } from './event-log.ts';

const entry = (at: number): HistoryEntry => ({ at, type: 'x' });
const times = (entries: readonly HistoryEntry[]): number[] => entries.map(({ at }) => at);

function follow(log: EventLog, after = 0): { times: number[]; next: number } {
  const all: number[] = [];
  for (let next = after; ; ) {
    const page = log.page(next);
    if (page.entries.length === 0) {
      return { times: all, next };
    }
    all.push(...times(page.entries));
    next = page.next;
  }
}

test('a reader that follows the log receives each entry once', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(30), { maxLength: 10 }), fc.nat(20), fc.integer({ min: 1, max: 3 }), (batches, earlier, attempt) => {
      const log = new EventLog(attempt);
      const before = attempt === 1 ? [] : Array.from({ length: earlier }, (_, at) => entry(-1 - at));
      log.prepend([{ attempt: attempt - 1, entries: before }].filter((each) => each.attempt > 0));
      let [count, next] = [0, 0];
      const read: number[] = [];
      for (const batch of batches) {
        for (let each = 0; each < batch; each++) {
          log.record(entry(count++));
        }
        const page = follow(log, next);
        read.push(...page.times);
        next = page.next;
      }
      const kept = batches.length === 0 ? [] : times(before);
      expect(read).toEqual([...kept, ...Array.from({ length: count }, (_, at) => at)]);
    }),
  );
});

test('keeps the first and the newest entries when there are too many', () => {
  const log = new EventLog(1);
  for (let at = 0; at < 100_000; at++) {
    log.record(entry(at));
  }
  const { times: held, next } = follow(log);
  expect(held.slice(0, 5000)).toEqual(Array.from({ length: 5000 }, (_, at) => at));
  expect(held.at(-1)).toBe(99_999);
  expect(held.length).toBeLessThan(25_000);
  expect(held).toEqual([...new Set(held)].sort((a, b) => a - b));
  log.record(entry(100_000));
  expect(times(log.page(next).entries)).toEqual([100_000]);
});

test('finds the newest matching entry across attempts', () => {
  const log = new EventLog(2);
  log.prepend([{ attempt: 1, entries: [{ at: 1, type: 'a', containerId: 'c1' }] }]);
  log.record({ at: 2, type: 'b' });
  expect(log.last(({ containerId }) => containerId === 'c1')).toMatchObject({ at: 1 });
  expect(log.last(({ type }) => type === 'c')).toBeUndefined();
});
