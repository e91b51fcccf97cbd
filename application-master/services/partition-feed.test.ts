import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { FeedOpening, Piece, RankReport } from '../../contract/partitions/partition-feed.ts';
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

function report(rank: number, values: Partial<RankReport> = {}): RankReport {
  const door = { host: 'node', port: 7000 + rank };
  return { feed: 'train', rank, worldSize: 2, door, known: 0, stored: [], wanted: [], unread: null, wait: false, ...values };
}

function piecesOf(feed: PartitionFeed, values: RankReport): readonly Piece[] {
  const { answer } = feed.report(values);
  return answer === 'wait' ? [] : answer.pieces;
}

test('each partition goes to exactly one rank, whatever the order of the requests is', () => {
  fc.assert(
    fc.property(fc.integer({ min: 3, max: 30 }), fc.infiniteStream(fc.nat(2)), (partitions, ranks) => {
      const feed = open({ partitions }, 3);
      const known: Piece[][] = [[], [], []];
      for (const rank of ranks) {
        const own = known[rank] as Piece[];
        const { answer } = feed.report(report(rank, { worldSize: 3, known: own.length, unread: 0 }));
        expect(answer).not.toBe('wait');
        if (answer !== 'wait') {
          own.push(...answer.pieces);
        }
        if (feed.received.isAll || known.flat().length === partitions) {
          break;
        }
      }
      expect(
        known
          .flat()
          .map(({ partition }) => partition)
          .sort((a, b) => a - b),
      ).toEqual(Array.from({ length: partitions }, (_, index) => index));
    }),
  );
});

test('a rank that has not read its pieces gets no more than its share of the remaining partitions', () => {
  const feed = open({ partitions: 8 });
  const given = [];
  for (let unread = 0; unread < 8; unread++) {
    given.push(...piecesOf(feed, report(0, { known: given.length, unread: given.length })));
  }
  expect(given).toHaveLength(2);
});

test('a repeated report gets the same answer, also after a restart', () => {
  const feed = open();
  const first = piecesOf(feed, report(0, { unread: 0 }));
  expect(piecesOf(feed, report(0, { unread: null }))).toEqual(first);
  const restored = PartitionFeed.restore(JSON.parse(JSON.stringify(feed.store())));
  expect(piecesOf(restored, report(0, { unread: null }))).toEqual(first);
  expect(piecesOf(restored, report(1, { unread: 0 }))).toEqual([{ partition: 1, from: 0, to: null }]);
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
  const { answer } = feed.report(report(0, { stored: [{ index: 0, records: 3, digest: b }] }));
  expect(answer).toMatchObject({ changed: [{ partition: 0, before: 2, now: 3 }], facts: [{ records: 2, digest: a }] });
});

test.each<[string, Partial<FeedOpening>, RegExp]>([
  ['too few partitions', { partitions: 1 }, /has 1 partitions, which is not enough for 2 ranks/],
  ['a wrong number of sizes', { counts: [1] }, /1 sizes for 6 partitions/],
  ['equal shards without sizes', { shards: 'equal' }, /has not counted/],
])('an opening with %s is refused', (_, opening, message) => {
  expect(() => open(opening)).toThrow(message);
});

test('a report of another number of ranks is refused', () => {
  expect(() => open().report(report(0, { worldSize: 3 }))).toThrow(/divided among 2 ranks, but now there are 3/);
});
