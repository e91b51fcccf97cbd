import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { FeedOpening, PartitionPiece, RankReport } from '../../contract/partitions/partition-feed.ts';
import { PartitionFeed } from './partition-feed.ts';

const OPENING: FeedOpening = {
  source: 'driver',
  format: 'arrow',
  partitions: 6,
  counts: null,
  epochs: 1,
  shards: 'balanced',
  remainder: 'pad',
  seed: 0,
  cacheBytes: 1024,
};

function open(opening: Partial<FeedOpening> = {}, worldSize = 2): PartitionFeed {
  return PartitionFeed.open('train', { ...OPENING, ...opening }, worldSize);
}

/** Sends a report, and returns the answer. */
function ask(feed: PartitionFeed, values: RankReport) {
  return feed.answerTo(values, feed.report(values).changed);
}

function report(rank: number, values: Partial<RankReport> = {}): RankReport {
  const door = { host: 'node', port: 7000 + rank };
  return { feed: 'train', rank, worldSize: 2, door, known: 0, stored: [], wanted: [], unread: null, wait: false, ...values };
}

/** Lets a rank report how much it has read, and returns the pieces that it learns about. */
function learn(feed: PartitionFeed, rank: number, known: number, unread: number, worldSize = 2): readonly PartitionPiece[] {
  const answer = ask(feed, report(rank, { worldSize, known, unread }));
  return answer === 'wait' ? [] : answer.pieces;
}

test('each partition goes to exactly one rank, whatever the order of offers and reports is', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 3, max: 30 }),
      fc.array(fc.tuple(fc.nat(2), fc.nat(40), fc.nat(9)), { maxLength: 300 }),
      (partitions, events) => {
        const feed = open({ partitions }, 3);
        const known: PartitionPiece[][] = [[], [], []];
        const all = [...events, ...Array.from({ length: 3 * partitions }, (_, at) => [at % 3, at % partitions, 0] as const)];
        for (const [rank, partition, unread] of all) {
          const own = known[rank] as PartitionPiece[];
          own.push(...learn(feed, rank, own.length, unread, 3));
          if (partition < partitions) {
            const { answer } = feed.offer(partition);
            expect(answer === 'wait' || answer.length <= 1).toBe(true);
          }
        }
        for (const [rank, own] of known.entries()) {
          own.push(...learn(feed, rank, own.length, 0, 3));
        }
        const given = known.flat().map(({ partition }) => partition);
        expect(given.sort((a, b) => a - b)).toEqual(Array.from({ length: partitions }, (_, index) => index));
      },
    ),
  );
});

test('a partition goes to the rank that has read most of its pieces, and to none without room', () => {
  const feed = open({ partitions: 8 });
  expect(feed.offer(0).answer).toBe('wait');
  learn(feed, 0, 0, 1);
  learn(feed, 1, 0, 0);
  expect([5, 0, 3].map((partition) => feed.offer(partition).answer)).toMatchObject([
    [{ rank: 1, partition: 5 }],
    [{ rank: 0 }],
    [{ rank: 1 }],
  ]);
  expect(feed.offer(1).answer).toBe('wait');
  expect(feed.plan().unassigned).toEqual([1, 2, 4, 6, 7]);
});

test('a repeated offer and a repeated report get the same answer, and so they do after a restart', () => {
  const feed = open();
  learn(feed, 0, 0, 0);
  const { answer } = feed.offer(4);
  expect(feed.offer(4)).toEqual({ answer, isNew: false });
  const first = learn(feed, 0, 0, 9);
  expect(first).toEqual([{ partition: 4, from: 0, to: null }]);
  const restored = PartitionFeed.restore(JSON.parse(JSON.stringify(feed.store())));
  expect(learn(restored, 0, 0, 9)).toEqual(first);
  expect(restored.offer(4).answer).toEqual([]);
});

test('a feed without partitions is complete at once', () => {
  const feed = open({ partitions: 0 });
  expect(ask(feed, report(0))).toMatchObject({ pieces: [], isComplete: true });
  expect(feed.received).toEqual({ records: 0, isAll: true });
});

test('the plan lists wanted pieces alternately for each rank, with the door of the rank', () => {
  const feed = open({ shards: 'equal', counts: [2, 2, 2, 2], partitions: 4 });
  feed.report(report(0, { wanted: [1, 0] }));
  feed.report(report(1, { wanted: [0, 1] }));
  expect(feed.plan().needed.map(({ rank, index, partition, port }) => [rank, index, partition, port])).toEqual([
    [0, 1, 1, 7000],
    [1, 0, 2, 7001],
    [0, 0, 0, 7000],
    [1, 1, 3, 7001],
  ]);
  feed.leave(({ port }) => port === 7001);
  expect(feed.plan().needed.map(({ rank }) => rank)).toEqual([1, 1]);
});

test('the version of the plan changes exactly when the wanted pieces or a door change', () => {
  const feed = open({ shards: 'equal', counts: [2, 2], partitions: 2 });
  feed.report(report(0, { wanted: [0] }));
  const { version } = feed.plan();
  feed.report(report(0, { wanted: [0] }));
  expect(feed.plan().version).toBe(version);
  feed.report(report(0, { wanted: [] }));
  expect(feed.plan().version).toBe(version + 1);
  feed.report(report(0, { wanted: [], door: { host: 'other', port: 7000 } }));
  expect(feed.plan().version).toBe(version + 2);
});

test('a partition that is sent again with other contents is reported, and the first facts stay', () => {
  const feed = open({ shards: 'equal', counts: [2, 2], partitions: 2 });
  const [a, b] = ['a'.repeat(64), 'b'.repeat(64)];
  feed.report(report(0, { stored: [{ index: 0, records: 2, digest: a }] }));
  const answer = ask(feed, report(0, { stored: [{ index: 0, records: 3, digest: b }] }));
  expect(answer).toMatchObject({ changed: [{ partition: 0, before: 2, now: 3 }], facts: [{ records: 2, digest: a }] });
});

test('with equal shards, a partition without records is not offered', () => {
  const feed = open({ shards: 'equal', counts: [2, 0, 2], partitions: 3 });
  learn(feed, 0, 0, 0);
  expect(feed.plan().unassigned).toEqual([]);
  expect(feed.offer(1)).toEqual({ answer: [], isNew: false });
});

test('equal shards notice that a partition has another size than when it was counted', () => {
  const feed = open({ shards: 'equal', counts: [2, 2], partitions: 2 });
  const answer = ask(feed, report(0, { stored: [{ index: 0, records: 1, digest: 'a'.repeat(64) }] }));
  expect(answer).toMatchObject({ changed: [{ partition: 0, before: 2, now: 1 }] });
});

test.each<[string, Partial<FeedOpening>, RegExp]>([
  ['too few partitions', { partitions: 1 }, /has 1 partition, which is not enough for 2 ranks/],
  ['a wrong number of sizes', { counts: [1] }, /1 sizes for 6 partitions/],
  ['equal shards without sizes', { shards: 'equal' }, /has not counted/],
])('an opening with %s is refused', (_, opening, message) => {
  expect(() => open(opening)).toThrow(message);
});

test('a report of another number of ranks is refused', () => {
  expect(() => open().report(report(0, { worldSize: 3 }))).toThrow(/divided among 2 ranks, but now there are 3/);
});
