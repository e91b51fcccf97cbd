import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createRandom } from '../../platform/random.ts';
import { FeedQueue } from './feed-queue.ts';

const record = (text: string) => [Buffer.from(text)];

describe('a feed', () => {
  it('repeats its answer to a repeated request, and treats the next request as a confirmation', () => {
    const feed = new FeedQueue();
    expect(feed.take('r', 0, 1)).toEqual({ answer: 'wait', isNew: false });
    expect(feed.open('p', 1, 0)).toBe(1);
    feed.put('p', 1, record('a'));
    expect(feed.take('r', 0, 1)).toEqual({ answer: { records: record('a') }, isNew: true });
    expect(feed.take('r', 0, 1)).toEqual({ answer: { records: record('a') }, isNew: false });
    expect(feed.takenOf('p')).toBe(0);
    expect(feed.take('r', 1, 1).answer).toBe('wait');
    expect(feed.takenOf('p')).toBe(1);
    expect(feed.bytesOf('p')).toBe(0);
    expect(feed.take('r', 0, 1).answer).toBe('wait');
    feed.end('p', 1);
    expect(feed.isDone('p')).toBe(true);
    expect(feed.take('r', 1, 2).answer).toBe('wait');
    expect(feed.take('r', 1, 1).answer).toBe('over');
  });

  it('rejects a chunk after a gap, and ignores chunks that it already has', () => {
    const feed = new FeedQueue();
    feed.open('p', 1, 0);
    expect(feed.put('p', 1, record('a'))).toBe(true);
    expect(feed.put('p', 1, record('a'))).toBe(false);
    expect(() => feed.put('p', 3, record('c'))).toThrow(/chunk 3 arrived after chunk 1/);
    expect(() => feed.put('q', 1, record('x'))).toThrow(/does not know producer/);
  });

  it("accepts any number as a producer's first chunk, and counts earlier chunks as consumed", () => {
    const feed = new FeedQueue();
    feed.open('p', 1, 0);
    for (const sequence of [1, 2, 3, 4]) {
      feed.put('p', sequence, record(`${sequence}`));
    }
    expect(feed.take('r', 0, 1).answer).toEqual({ records: ['1', '2', '3', '4'].map((text) => Buffer.from(text)) });
    feed.put('p', 5, record('5'));
    expect(feed.open('p', 4, 3)).toBe(6);
    expect(feed.takenOf('p')).toBe(3);
    expect(feed.bytesOf('p')).toBe(2 * 65);
    expect(feed.open('p', 2 ** 40, 9)).toBe(2 ** 40);
    expect(feed.takenOf('p')).toBe(2 ** 40 - 1);
    expect(feed.bytesOf('p')).toBe(0);
    expect(feed.take('r', 1, 1).answer).toBe('wait');
  });

  it('counts the records that a new process with the name of a crashed producer must not send again', () => {
    const chunk = (...texts: string[]) => texts.map((text) => Buffer.from(text));
    let feed = new FeedQueue();
    feed.open('p', 1, 0);
    feed.open('q', 1, 0);
    feed.put('p', 1, chunk('a', 'b'));
    feed.put('p', 2, chunk('c', 'd', 'e'));
    feed.put('q', 1, chunk('x'));
    feed.put('p', 3, chunk('f'));
    feed.put('p', 3, chunk('f'));
    expect([feed.receivedRecordsOf('p'), feed.receivedRecordsOf('q')]).toEqual([6, 1]);
    feed.take('r', 0, 1);
    feed.take('r', 1, 1);
    expect([feed.receivedRecordsOf('p'), feed.receivedRecordsOf('q')]).toEqual([6, 1]);
    feed.put('p', 4, chunk('g', 'h'));
    expect(feed.receivedRecordsOf('p')).toBe(8);
    // The next ApplicationMaster has only the records that workers have consumed.
    feed = FeedQueue.restore(JSON.parse(JSON.stringify(feed.store())));
    expect([feed.receivedRecordsOf('p'), feed.receivedRecordsOf('q')]).toEqual([6, 1]);
    expect(feed.open('p', 4, 6)).toBe(4);
    feed.put('p', 4, chunk('g', 'h', 'i'));
    expect(feed.receivedRecordsOf('p')).toBe(9);
    feed.open('p', 9, 20);
    expect(feed.receivedRecordsOf('p')).toBe(20);
  });

  it('reports whether a reader is waiting for a record', () => {
    const feed = new FeedQueue();
    feed.open('p', 1, 0);
    feed.put('p', 1, record('a'));
    feed.take('r', 0, 1);
    expect(feed.isAwaited('p', 1)).toBe(false);
    const next = FeedQueue.restore(JSON.parse(JSON.stringify(feed.store())));
    expect(next.isAwaited('p', 1)).toBe(true);
    expect(next.isAwaited('p', 2)).toBe(false);
    next.open('p', 1, 0);
    next.put('p', 1, record('a'));
    expect(next.isAwaited('p', 1)).toBe(false);
  });

  /*
   * Simulates producers and readers with faults. Producers disconnect and reconnect. Readers lose responses, resend requests, and sometimes
   * die before they have consumed a response. A new process restores the state stored before the last delivered response.
   */
  it('delivers each record exactly once, even if messages are lost', () => {
    fc.assert(
      fc.property(
        fc.integer(),
        fc.array(fc.integer({ min: 0, max: 12 }), { minLength: 1, maxLength: 3 }),
        fc.integer({ min: 1, max: 3 }),
        (seed, sizes, workers) => {
          const random = createRandom(seed >>> 0);
          const below = (limit: number) => Math.floor(random() * limit);
          let feed = new FeedQueue();
          let written = feed.store();
          /** State of each producer: its first unconsumed chunk, and the next chunk to send (null while disconnected). */
          const producers = sizes.map((size, index) => ({ id: `p${index}`, size, first: 1, next: null as number | null, isOver: false }));
          const readers = Array.from({ length: workers }, (_, index) => ({
            id: `${index}`,
            life: 0,
            at: 0,
            seen: [] as string[],
            isOver: false,
          }));
          const seen: string[] = [];
          for (let turn = 0; readers.some(({ isOver }) => !isOver) || producers.some(({ isOver }) => !isOver); turn++) {
            const calm = turn > 3000;
            if (!calm && random() < 0.03) {
              feed = FeedQueue.restore(JSON.parse(JSON.stringify(written)));
              for (const producer of producers) {
                producer.next = null;
              }
            }
            const producer = producers[below(producers.length)] as (typeof producers)[number];
            if (!producer.isOver) {
              if (!calm && random() < 0.1) {
                producer.next = null;
              }
              if (producer.next === null) {
                producer.next = feed.open(producer.id, producer.first, producer.first - 1);
              } else if (producer.next <= producer.size) {
                feed.put(producer.id, producer.next, record(`${producer.id}:${producer.next}`));
                expect(feed.receivedRecordsOf(producer.id)).toBeGreaterThanOrEqual(producer.next);
                producer.next++;
              } else {
                feed.end(producer.id, producer.size);
                written = feed.store();
                producer.isOver = feed.isDone(producer.id) && (calm || random() < 0.8);
              }
              if (random() < 0.5) {
                producer.first = Math.max(producer.first, feed.takenOf(producer.id) + 1);
              }
            }
            const reader = readers[below(readers.length)] as (typeof readers)[number];
            if (!calm && random() < 0.03) {
              const dead = `${reader.id}.${reader.life}`;
              const { answer, isNew } = feed.take(dead, reader.at, producers.length);
              if (isNew) {
                written = feed.store();
              }
              reader.life++;
              reader.at = 0;
              feed.forget((id) => id === dead);
              written = feed.store();
              if (answer === 'over') {
                reader.isOver = false;
              }
              continue;
            }
            const { answer, isNew } = feed.take(`${reader.id}.${reader.life}`, reader.at, producers.length);
            if (isNew) {
              written = feed.store();
            }
            if (!calm && random() < 0.2) {
              continue;
            }
            if (answer === 'over') {
              reader.isOver = true;
            } else if (answer !== 'wait') {
              seen.push(...answer.records.map((each) => Buffer.from(each).toString()));
              reader.at++;
              reader.isOver = false;
            }
            if (turn > 50_000) {
              throw new Error(`the feed has not ended: ${JSON.stringify({ producers, readers, stored: feed.store() })}`);
            }
          }
          const all = sizes.flatMap((size, index) => Array.from({ length: size }, (_, at) => `p${index}:${at + 1}`));
          expect(seen.sort()).toEqual(all.sort());
        },
      ),
      { numRuns: 400 },
    );
  });
});
