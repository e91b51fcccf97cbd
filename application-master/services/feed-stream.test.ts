import { expect, test } from 'vitest';
import { FeedStream } from './feed-stream.ts';

const QUERY = 'query';
const MINUTE = 60_000;

function batch(number: number, { query = QUERY, isSending = false } = {}) {
  return { feed: 'train', batch: { query, number }, isSending, hasEnded: false };
}

function alive(hasEnded = false) {
  return { feed: 'train', batch: null, isSending: false, hasEnded };
}

function reader(next: number, saved: number, query: string | null = QUERY) {
  return { feed: 'train', query, next, saved };
}

test('Spark goes on to the next micro-batch when a checkpoint contains the last one', () => {
  const stream = new FeedStream('train', 0);
  expect(stream.ask(batch(0), 0)).toBe('wait');
  expect(stream.next(reader(0, 0, null), 0, 0)).toEqual({ query: QUERY, number: 0, feed: 'train.batch-0' });
  expect(stream.ask(batch(0), 0)).toEqual({ feed: 'train.batch-0' });
  expect(stream.ask(batch(0, { isSending: true }), 0)).toBe('wait');
  // A rank that has read the batch does not get it again, whether or not it saves the checkpoint.
  expect(stream.next(reader(1, 0), 0, 0)).toBe('wait');
  expect(stream.ask(batch(0, { isSending: true }), 0)).toBe('wait');
  expect(stream.next(reader(1, 1), 0, 0)).toBe('wait');
  expect(stream.ask(batch(0, { isSending: true }), 0)).toBe('saved');
  expect(stream.ask(batch(1), 0)).toEqual({ feed: 'train.batch-1' });
  expect(stream.next(reader(1, 0), 0, 0)).toMatchObject({ number: 1 });
});

test('a repeated micro-batch is sent again only if the checkpoint does not contain it', () => {
  const stream = new FeedStream('train', 0);
  stream.next(reader(7, 7), 0, 0);
  expect(stream.ask(batch(6), 0)).toBe('saved');
  expect(stream.next(reader(7, 7), 0, 0)).toBe('wait');
  expect(stream.ask(batch(7), 0)).toEqual({ feed: 'train.batch-7' });
  expect(stream.next(reader(7, 7), 0, 0)).toMatchObject({ number: 7 });
  // The program has restarted from its checkpoint in the middle of the batch.
  expect(stream.next(reader(7, 7), 0, 0)).toMatchObject({ number: 7 });
});

test('a program that resumes before a micro-batch that Spark has committed fails, because it would lose the records', () => {
  const stream = new FeedStream('train', 0);
  stream.ask(batch(2), 0);
  stream.next(reader(3, 3), 0, 0);
  for (const question of [reader(2, 2), reader(0, 0, null)]) {
    expect(() => stream.next(question, 0, 0)).toThrow(/from micro-batch \d on, but an earlier checkpoint contained all before 3/);
  }
  expect(stream.next(reader(3, 0), 0, 0)).toBe('wait');
});

test('a checkpoint of another query contains no micro-batch of this one, and a stream has one query', () => {
  const stream = new FeedStream('train', 0);
  stream.ask(batch(0), 0);
  expect(stream.next(reader(9, 9, 'earlier query'), 0, 0)).toMatchObject({ number: 0 });
  expect(stream.ask(batch(0), 0)).toEqual({ feed: 'train.batch-0' });
  expect(() => stream.ask(batch(0, { query: 'other' }), 0)).toThrow('another query of Spark already sends the stream train');
});

test('the stream ends when a checkpoint contains its last micro-batch', () => {
  const stream = new FeedStream('train', 0);
  stream.ask(batch(0), 0);
  expect(stream.ask(alive(true), 0)).toBe('alive');
  expect(stream.next(reader(0, 0), 0, 0)).toMatchObject({ number: 0 });
  expect(stream.next(reader(1, 0), 0, 0)).toBe('wait');
  expect(stream.next(reader(1, 1), 0, 0)).toBe('over');
  // A driver that repeats its question does not begin the stream again.
  expect(stream.ask(alive(), 0)).toBe('alive');
  expect(stream.next(reader(1, 1), 0, 0)).toBe('over');
});

test('a stream without batches may end', () => {
  const stream = new FeedStream('train', 0);
  stream.ask(alive(true), 0);
  expect(stream.next(reader(0, 0, null), 0, 0)).toBe('over');
});

test('an idle stream lives as long as its driver, and is lost 10 minutes later', () => {
  const stream = new FeedStream('train', 0);
  for (let minute = 0; minute < 60; minute += 5) {
    stream.ask(alive(), minute * MINUTE);
    expect(stream.next(reader(3, 3), (minute + 5) * MINUTE, 0)).toBe('wait');
  }
  expect(() => stream.next(reader(3, 3), 66 * MINUTE, 0)).toThrow(
    'the program that sends the stream train has not been reachable for 10 min',
  );
});
