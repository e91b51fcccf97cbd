import { pino } from 'pino';
import { expect, test } from 'vitest';
import type { FeedOpening } from '../../contract/partitions/partition-feed.ts';
import { PartitionFeeds } from './partition-feeds.ts';

const WORKER = { containerId: 'container_1', role: 'worker', generation: 1, ranked: true };
const DOOR = { host: 'node', port: 7000 };
const OPENING: FeedOpening = {
  source: 'driver',
  format: 'arrow',
  partitions: 2,
  counts: null,
  epochs: 1,
  shards: 'balanced',
  remainder: 'pad',
  seed: 0,
  cacheBytes: 1024,
};

function feeds() {
  const published: unknown[] = [];
  let now = 0;
  const all = new PartitionFeeds({
    note: () => {},
    changed: () => {},
    publish: (doors) => published.push(doors),
    firstVersion: 0,
    now: () => now,
    log: pino({ level: 'silent' }),
  });
  return { all, published, pass: (ms: number) => (now += ms) };
}

/** Sends a report of the worker, and returns the first answer. */
function ask(all: PartitionFeeds, body: object): unknown {
  return all.report(WORKER, body)();
}

function report(values: object = {}) {
  return { feed: 'train', rank: 0, worldSize: 1, door: DOOR, known: 0, stored: [], wanted: [], unread: 0, wait: false, ...values };
}

test('a program and a source may come in any order, and the doors are published when they change', () => {
  const { all, published } = feeds();
  expect(all.kind(WORKER, { feed: 'train', worldSize: 1, door: DOOR })).toBe('wait');
  expect(all.open({ feed: 'train', opening: OPENING })).toBe('opened');
  expect(all.kind(WORKER, { feed: 'train', worldSize: 1, door: DOOR })).toBe('partitions');
  expect(published).toEqual([[DOOR]]);
  expect(all.open({ feed: 'later', opening: OPENING })).toBe('wait');
  expect(all.kind(WORKER, { feed: 'later', worldSize: 1, door: DOOR })).toBe('partitions');
  all.sweep(() => false);
  expect(published).toEqual([[DOOR], []]);
});

test('a feed that a program reads is unsent until a source opens it, as records or as a stream', () => {
  const { all } = feeds();
  for (const feed of ['train', 'clicks', 'trian']) {
    all.kind(WORKER, { feed, worldSize: 1, door: DOOR });
  }
  all.open({ feed: 'validation', opening: OPENING });
  expect(all.unsent).toEqual(['train', 'clicks', 'trian']);
  all.open({ feed: 'train', opening: { ...OPENING, shards: 'equal' } });
  all.stream({ feed: 'clicks', batch: null, isSending: false, hasEnded: false });
  expect(all.unsent).toEqual(['trian']);
});

test('equal shards are divided when the source has counted its records', () => {
  const { all } = feeds();
  all.kind(WORKER, { feed: 'train', worldSize: 1, door: DOOR });
  const opening = { ...OPENING, shards: 'equal' as const };
  expect(all.open({ feed: 'train', opening })).toBe('opened');
  expect(all.plan({ feed: 'train', source: 'driver', version: null })).toMatchObject({ counting: true });
  expect(all.offer({ feed: 'train', source: 'driver', partition: 0 })).toBe('count');
  expect(ask(all, report())).toBe('wait');
  all.open({ feed: 'train', opening: { ...opening, counts: [3, 4] } });
  expect(ask(all, report({ wanted: [1] }))).toMatchObject({ isComplete: true });
  expect(all.offer({ feed: 'train', source: 'driver', partition: 1 })).toMatchObject([{ partition: 1, from: 0, to: 4, ...DOOR }]);
});

test('a second source of a feed is refused, and so are the questions of a source that has not opened it', () => {
  const { all } = feeds();
  all.open({ feed: 'train', opening: OPENING });
  expect(() => all.open({ feed: 'train', opening: { ...OPENING, source: 'other' } })).toThrow(/another program already sends feed train/);
  expect(() => all.plan({ feed: 'train', source: 'other', version: null })).toThrow(/does not send feed train/);
  expect(() => all.offer({ feed: 'train', source: 'other', partition: 0 })).toThrow(/does not send feed train/);
});

test('a new attempt of the ApplicationMaster lets a source continue to count, and opens the feed with its counts', () => {
  const { all } = feeds();
  expect(all.offer({ feed: 'train', source: 'driver', partition: 0 })).toBe('count');
  expect(all.plan({ feed: 'train', source: 'driver', version: 0 })).toBe('wait');
  all.kind(WORKER, { feed: 'train', worldSize: 1, door: DOOR });
  expect(all.open({ feed: 'train', opening: { ...OPENING, shards: 'equal', counts: [1, 2] } })).toBe('opened');
});

test('a source corrects a mistake by opening the feed again', () => {
  const { all } = feeds();
  all.kind(WORKER, { feed: 'train', worldSize: 3, door: DOOR });
  expect(() => all.open({ feed: 'train', opening: OPENING })).toThrow(/2 partitions, which is not enough for 3 ranks/);
  expect(all.open({ feed: 'train', opening: { ...OPENING, partitions: 3 } })).toBe('opened');
});

test('a report that still waits does not undo a newer report', () => {
  const { all } = feeds();
  all.open({ feed: 'train', opening: OPENING });
  const older = all.report(WORKER, report({ unread: 2, wait: true }));
  expect(older()).toBe('wait');
  expect(all.offer({ feed: 'train', source: 'driver', partition: 0 })).toBe('wait');
  const newer = all.report(WORKER, report({ unread: 0, wait: true }));
  expect([newer(), older()]).toEqual(['wait', 'wait']);
  expect(all.offer({ feed: 'train', source: 'driver', partition: 0 })).toMatchObject([{ partition: 0 }]);
});

test('a rank that waits learns that the source has been away for ten minutes, and a source that asks stays', () => {
  const { all, pass } = feeds();
  all.open({ feed: 'train', opening: OPENING });
  ask(all, report());
  for (const partition of [0, 1]) {
    all.offer({ feed: 'train', source: 'driver', partition });
    ask(all, report({ known: partition + 1 }));
  }
  pass(9 * 60_000);
  all.plan({ feed: 'train', source: 'driver', version: null });
  pass(9 * 60_000);
  expect(() => ask(all, report({ known: 2, wanted: [0] }))).not.toThrow();
  pass(2 * 60_000);
  expect(() => ask(all, report({ known: 2, wanted: [] }))).not.toThrow();
  expect(() => ask(all, report({ known: 2, wanted: [0] }))).toThrow(/has not been reachable for 10 min/);
});

test.each(['balanced', 'equal'] as const)('a source of %s shards whose connection has closed is lost after three minutes', (shards) => {
  const { all, pass } = feeds();
  let door = DOOR;
  // With equal shards, the program waits until the source has counted its records.
  const waits = () =>
    shards === 'equal' ? all.kind(WORKER, { feed: 'train', worldSize: 1, door }) : ask(all, report({ door, unread: null, wait: true }));
  all.open({ feed: 'train', opening: { ...OPENING, shards } });
  expect(waits()).toBe('wait');
  all.driverLeft({ feed: 'train' });
  pass(2 * 60_000);
  // The source comes back.
  all.plan({ feed: 'train', source: 'driver', version: null });
  pass(4 * 60_000);
  expect(waits()).toBe('wait');
  all.driverLeft({ feed: 'train' });
  // A task of Spark may ask when the driver has ended.
  all.offer({ feed: 'train', source: 'driver', partition: 0 });
  // The source could not reach the job, because its container was replaced.
  pass(4 * 60_000);
  door = { host: 'node', port: 7001 };
  expect(waits()).toBe('wait');
  pass(2 * 60_000);
  expect(waits()).toBe('wait');
  pass(2 * 60_000);
  expect(waits).toThrow('the program that sends feed train has closed its connection, and has not come back for 3 min');
});

test('a source that counts its records waits for the end of the plan', () => {
  const { all } = feeds();
  all.open({ feed: 'train', opening: { ...OPENING, shards: 'equal' } });
  all.kind(WORKER, { feed: 'train', worldSize: 1, door: DOOR });
  const plan = (version: number | null) => all.plan({ feed: 'train', source: 'driver', version });
  expect(plan(null)).toMatchObject({ counting: true, version: 0 });
  expect(plan(0)).toBe('wait');
  all.open({ feed: 'train', opening: { ...OPENING, shards: 'equal', counts: [1, 1] } });
  expect(plan(null)).toMatchObject({ counting: false });
});

test('a stream is read as one feed of any number of micro-batches, whose own feeds are forgotten', () => {
  const { all } = feeds();
  const question = { feed: 'train', worldSize: 1, door: DOOR };
  const asked = (number: number) => ({ feed: 'train', batch: { query: 'query', number }, isSending: false, hasEnded: false });
  expect(all.kind(WORKER, question)).toBe('wait');
  all.stream(asked(0));
  expect(all.kind(WORKER, question)).toBe('stream');
  for (let number = 0; number < 100; number++) {
    all.stream(asked(number));
    const next = { feed: 'train', query: 'query', next: number, saved: number, door: DOOR };
    expect(all.nextBatch(WORKER, next)).toEqual({ query: 'query', number, feed: `train.batch-${number}` });
    all.kind(WORKER, { ...question, feed: `train.batch-${number}` });
    all.open({ feed: `train.batch-${number}`, opening: OPENING });
  }
  expect(Object.keys(all.store())).toEqual(['train.batch-99']);
});
