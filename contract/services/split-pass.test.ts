import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createRandom } from '../../platform/random.ts';
import { SplitPass } from './split-pass.ts';

/** A share's log and how many of its entries have been used, as a checkpoint would store them. */
interface Place {
  used: number;
  log: number[];
}

describe('a pass by shares', () => {
  const open = (splits: number, awaited = 0) => new SplitPass({ kind: 'shares', splits, fingerprint: 'f', awaited });

  it('a pass by shares returns the same split for a repeated request', () => {
    const pass = open(3);
    pass.register('0', []);
    pass.register('1', []);
    expect(pass.next('0', 0)).toEqual({ split: 0 });
    expect(pass.next('1', 0)).toEqual({ split: 1 });
    expect(pass.next('0', 0)).toEqual({ split: 0 });
    expect(pass.next('0', 1)).toEqual({ split: 2 });
    expect(pass.next('1', 1)).toBe('over');
    expect(() => pass.next('1', 2)).toThrow(/requests split 2/);
  });

  it('a pass by shares assigns nothing until every reader with an earlier log has registered it', () => {
    const pass = open(3, 2);
    pass.register('1', [0]);
    expect(pass.next('1', 0)).toEqual({ split: 0 });
    expect(pass.next('1', 1)).toBe('wait');
    pass.register('0', [2, 1]);
    expect(pass.next('1', 1)).toBe('over');
  });

  it('a pass by shares rejects logs that contradict each other', () => {
    const pass = open(3, 2);
    pass.register('0', [1]);
    for (const log of [[1], [0, 0], [7], [-1], [0.5]]) {
      expect(() => pass.register('1', log)).toThrow(/do not match/);
    }
    expect(() => pass.register('0', [2])).toThrow(/do not match/);
    expect(() => open(2_000_000)).toThrow(/the maximum is/);
  });

  /*
   * Reads the shares in random order, with read-ahead. At random moments, all readers return to a checkpoint, or another process continues
   * the pass from the stored state. Some shares have a second reader.
   */
  it('a pass by shares assigns each split once, despite restarts and returns to checkpoints', () => {
    fc.assert(
      fc.property(fc.integer(), fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 5 }), (seed, splits, shares) => {
        const random = createRandom(seed >>> 0);
        const below = (limit: number) => Math.floor(random() * limit);
        const fresh = (): Place[] => Array.from({ length: shares }, () => ({ used: 0, log: [] }));
        let checkpoint = fresh();
        let now = fresh();
        let pass = open(splits);
        const notified = new Set<number>();
        let over = new Set<number>();
        for (let turn = 0; over.size < shares || now.some(({ used, log }) => used < log.length); turn++) {
          const share = below(shares);
          const place = now[share] as Place;
          if (!notified.has(share)) {
            pass.register(String(share), place.log);
            notified.add(share);
          }
          const event = turn > 2000 ? 5 : below(20);
          if (event === 0) {
            checkpoint = structuredClone(now);
          } else if (event === 1) {
            now = structuredClone(checkpoint);
            const isFresh = now.every(({ log }) => log.length === 0);
            pass = open(splits, isFresh ? 0 : shares);
            notified.clear();
            over = new Set();
          } else if (event === 2) {
            pass = SplitPass.restore(JSON.parse(JSON.stringify(pass.store())));
          } else if (event === 3 && place.log.length > 0) {
            // A second reader of the same share, or a repeated request.
            const at = below(place.log.length);
            expect(pass.next(String(share), at)).toEqual({ split: place.log[at] });
          } else if (event < 9 && place.used < place.log.length) {
            place.used++;
          } else {
            const next = pass.next(String(share), place.log.length);
            if (next === 'over') {
              over.add(share);
            } else if (next !== 'wait') {
              place.log.push(next.split);
            }
          }
          if (turn > 100_000) {
            throw new Error('does not end');
          }
        }
        const used = now.flatMap(({ log }) => log).sort((a, b) => a - b);
        expect(used).toEqual(Array.from({ length: splits }, (_, split) => split));
      }),
      { numRuns: 300 },
    );
  });
});

describe('a pass by workers', () => {
  it('a pass by workers counts each split once, even if workers fail and the pass is stored and restored', () => {
    fc.assert(
      fc.property(fc.integer(), fc.integer({ min: 0, max: 30 }), fc.integer({ min: 1, max: 5 }), (seed, splits, workers) => {
        const random = createRandom(seed >>> 0);
        const below = (limit: number) => Math.floor(random() * limit);
        let pass = new SplitPass({ kind: 'workers', splits, fingerprint: 'f', awaited: 0 });
        const lives = new Array<number>(workers).fill(0);
        const held = Array.from({ length: workers }, () => ({ log: [] as number[], finished: 0, over: false }));
        const counted: number[] = [];
        for (let turn = 0; held.some(({ over }) => !over); turn++) {
          const worker = below(workers);
          const reader = `${worker}.${lives[worker]}`;
          const own = held[worker] as (typeof held)[number];
          pass.register(reader, own.log);
          const event = turn > 2000 ? 9 : below(20);
          if (event === 0) {
            pass.removeReader(reader);
            lives[worker] = (lives[worker] as number) + 1;
            held[worker] = { log: [], finished: 0, over: false };
          } else if (event === 1) {
            pass = SplitPass.restore(JSON.parse(JSON.stringify(pass.store())));
          } else if (own.finished < own.log.length) {
            const split = own.log[own.finished] as number;
            if (pass.done(reader, split)) {
              counted.push(split);
            }
            if (event === 2) {
              expect(pass.done(reader, split)).toBe(false);
            }
            own.finished++;
          } else {
            const next = pass.next(reader, own.log.length);
            if (next === 'over') {
              own.over = true;
            } else if (next !== 'wait') {
              own.log.push(next.split);
            }
          }
          if (turn > 100_000) {
            throw new Error('does not end');
          }
        }
        expect([...counted].sort((a, b) => a - b)).toEqual(Array.from({ length: splits }, (_, split) => split));
      }),
      { numRuns: 300 },
    );
  });

  it('a pass by workers reassigns the split of a failed worker, and ignores its late completion', () => {
    const pass = new SplitPass({ kind: 'workers', splits: 1, fingerprint: 'f', awaited: 0 });
    pass.register('a', []);
    pass.register('b', []);
    expect(pass.next('a', 0)).toEqual({ split: 0 });
    expect(pass.next('b', 0)).toBe('wait');
    pass.removeReader('a');
    expect(pass.next('b', 0)).toEqual({ split: 0 });
    expect(pass.done('a', 0)).toBe(false);
    expect(pass.done('b', 0)).toBe(true);
    expect(pass.next('b', 1)).toBe('over');
  });
});
