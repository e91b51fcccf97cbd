import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { TonyError } from '../../platform/errors.ts';
import { MAXIMUM_RECORD_BYTES } from '../../protos/feed-protocol.ts';
import type { TonyMessages } from '../../protos/tony-messages.ts';
import { Feeds } from './feeds.ts';
import type { ProducerLink } from './producer-link.ts';

const newFeeds = (): Feeds => new Feeds({ note: () => {}, changed: () => {}, isDurable: async () => true, log: pino({ level: 'silent' }) });

interface Producer extends ProducerLink {
  readonly sent: TonyMessages['FeedMessage'][];
  readonly refused: unknown[];
}

function newProducer(feeds: Feeds, feed: string, producer: string): Producer {
  const sent: TonyMessages['FeedMessage'][] = [];
  const refused: unknown[] = [];
  const link: Producer = {
    feed,
    producer,
    sent,
    refused,
    send: (message) => void sent.push(message),
    refuse: (error) => {
      refused.push(error);
      feeds.closed(link);
    },
  };
  return link;
}

const windowOf = ({ sent }: Producer): number | undefined => sent.at(-1)?.windowBytes;

function refusal(act: () => void): string | null {
  try {
    act();
    return null;
  } catch (error) {
    return error instanceof TonyError ? error.code : 'UNKNOWN';
  }
}

describe('feeds', () => {
  it('notify producers of all feeds of their new windows when a producer joins or leaves', () => {
    const feeds = newFeeds();
    const [first, second] = [newProducer(feeds, 'a', 'p'), newProducer(feeds, 'b', 'q')];
    feeds.opened(first, 1, 0);
    const whole = windowOf(first) as number;
    feeds.opened(second, 1, 0);
    expect(windowOf(first)).toBe(whole / 2);
    feeds.closed(second);
    expect(windowOf(first)).toBe(whole);
  });

  it('reject, with a retryable error, a chunk that exceeds the window because other producers have joined', () => {
    const feeds = newFeeds();
    const producer = newProducer(feeds, 'a', 'p');
    feeds.opened(producer, 1, 0);
    const size = 1024 * 1024;
    const chunks = (windowOf(producer) as number) / size;
    const send = (sequence: number) => feeds.received(producer, { chunk: { sequence, records: [Buffer.alloc(size - 64)] } });
    for (let sequence = 1; sequence < chunks; sequence++) {
      send(sequence);
    }
    for (let index = 0; index < 20; index++) {
      feeds.opened(newProducer(feeds, 'a', `q${index}`), 1, 0);
    }
    expect(refusal(() => send(chunks))).toBe('INTERNAL');
  });

  it('limit the bytes that all feeds hold together, regardless of the number of producers', () => {
    const feeds = newFeeds();
    const record = Buffer.alloc(MAXIMUM_RECORD_BYTES);
    const codes = Array.from({ length: 20 }, (_, index) => {
      const producer = newProducer(feeds, 'a', `p${index}`);
      feeds.opened(producer, 1, 0);
      const code = refusal(() => feeds.received(producer, { chunk: { sequence: 1, records: [record] } }));
      feeds.closed(producer);
      return code;
    });
    expect(codes.filter((code) => code === null)).toHaveLength(15);
    expect(codes.slice(15)).toEqual(Array.from({ length: 5 }, () => 'INTERNAL'));
  });

  it('pause producers while chunks of disconnected producers fill the memory, and resume them when workers consume chunks', () => {
    const feeds = newFeeds();
    const record = Buffer.alloc(MAXIMUM_RECORD_BYTES);
    const dead = Array.from({ length: 15 }, (_, index) => newProducer(feeds, 'a', `dead${index}`));
    const [waiting, other] = [newProducer(feeds, 'a', 'waiting'), newProducer(feeds, 'b', 'other')];
    for (const producer of [waiting, other]) {
      feeds.opened(producer, 1, 0);
    }
    for (const producer of dead) {
      feeds.opened(producer, 1, 0);
      feeds.received(producer, { chunk: { sequence: 1, records: [record] } });
      feeds.closed(producer);
    }
    expect([waiting, other].map(windowOf)).toEqual([0, 0]);
    const late = newProducer(feeds, 'b', 'late');
    feeds.opened(late, 1, 0);
    expect(late.sent[0]).toMatchObject({ expected: 1, windowBytes: 0 });
    expect(refusal(() => feeds.received(other, { chunk: { sequence: 1, records: [record] } }))).toBe('INTERNAL');
    const requester = { containerId: 'c', role: 'worker', ranked: true, generation: 1 };
    for (const at of [0, 1]) {
      feeds.take(requester, { feed: 'a', reader: 'r', at, producers: 1 });
    }
    for (const producer of [waiting, other, late]) {
      expect(windowOf(producer)).toBeGreaterThan(0);
    }
  });

  it('pause producers again when the room that a reconnecting producer freed is used up', () => {
    const feeds = newFeeds();
    const record = Buffer.alloc(MAXIMUM_RECORD_BYTES);
    const [waiting, other] = [newProducer(feeds, 'a', 'waiting'), newProducer(feeds, 'b', 'other')];
    for (const producer of [waiting, other]) {
      feeds.opened(producer, 1, 0);
    }
    for (let index = 0; index < 15; index++) {
      const dead = newProducer(feeds, 'a', `dead${index}`);
      feeds.opened(dead, 1, 0);
      feeds.received(dead, { chunk: { sequence: 1, records: [record] } });
      feeds.closed(dead);
    }
    expect([waiting, other].map(windowOf)).toEqual([0, 0]);
    // The previous ApplicationMaster has told the producer that its first chunk was consumed.
    const back = newProducer(feeds, 'a', 'dead0');
    feeds.opened(back, 2, 0);
    for (const producer of [waiting, other]) {
      expect(windowOf(producer)).toBeGreaterThan(0);
    }
    feeds.received(other, { chunk: { sequence: 1, records: [record] } });
    expect([waiting, other, back].map(windowOf)).toEqual([0, 0, 0]);
  });

  it('reject a producer beyond the maximum, and accept the end of its connection', () => {
    const feeds = newFeeds();
    for (let index = 0; index < 10_000; index++) {
      const producer = newProducer(feeds, 'a', `p${index}`);
      feeds.opened(producer, 1, 0);
      feeds.closed(producer);
    }
    const late = newProducer(feeds, 'a', 'late');
    expect(refusal(() => feeds.opened(late, 1, 0))).toBe('USAGE');
    feeds.closed(late);
    expect(late.sent).toEqual([]);
  });

  it('end the earlier connection of a producer that reconnects', () => {
    const feeds = newFeeds();
    const [before, now] = [newProducer(feeds, 'a', 'p'), newProducer(feeds, 'a', 'p')];
    feeds.opened(before, 1, 0);
    feeds.opened(now, 1, 0);
    expect(before.refused).toHaveLength(1);
    feeds.received(before, { chunk: { sequence: 7, records: [] } });
    feeds.received(now, { chunk: { sequence: 1, records: [Buffer.from('x')] } });
    expect(now.refused).toEqual([]);
  });
});
