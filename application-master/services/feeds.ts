import * as z from 'zod';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import { MAXIMUM_CHUNK_RECORDS, MAXIMUM_MESSAGE_BYTES, MAXIMUM_RECORD_BYTES } from '../../protos/feed-protocol.ts';
import type { TonyMessages } from '../../protos/tony-messages.ts';
import type { Requester } from './dispatcher.ts';
import { bytesOf, FeedQueue, type StoredFeed, type Taken } from './feed-queue.ts';
import type { ProducerLink } from './producer-link.ts';

/** Buffer size in bytes for all feeds together. Senders may exceed it by a few chunks. */
const CAPACITY_BYTES = 64 * 1024 * 1024;
/** Hard limit in bytes. Also applies to chunks from disconnected producers, and to records that are larger than a window. */
const MAXIMUM_HELD_BYTES = 4 * CAPACITY_BYTES;
/** A producer's minimum send window in bytes, regardless of the number of producers. */
const LEAST_WINDOW_BYTES = 512 * 1024;
/** Send window that pauses a producer. Any other window allows the producer to send at least one chunk of any size. */
const NO_WINDOW = 0;
const MAXIMUM_FEEDS = 64;

/** Format of the requests that training/data/sources/feed-source.ts sends. */
const question = z.object({
  feed: z.string().regex(/^[\w.-]{1,100}$/),
  /** Name of the reader within its process. */
  reader: z.string().max(100),
  at: z.number().int().nonnegative(),
  producers: z.number().int().positive(),
});

const farewell = question.pick({ feed: true, reader: true });

interface Feed {
  readonly queue: FeedQueue;
  readonly links: Map<string, ProducerLink>;
  readonly reported: Map<ProducerLink, string>;
}

/** How much buffer space is free. If space is `scarce`, only producers without buffered chunks may send. */
type Room = 'enough' | 'scarce' | 'none';

export type StoredFeeds = Readonly<Record<string, StoredFeed>>;

export interface FeedsOptions {
  /** Called when the state has changed and must be stored. */
  readonly note: () => void;
  /** Called when it may have become possible to respond to a waiting request. */
  readonly changed: () => void;
  /** Resolves to true when the current state is stored, or to false if another attempt has taken over. */
  readonly isDurable: () => Promise<boolean>;
  readonly log: Logger;
}

/** Manages all of a job's feeds. Assigns chunks to readers, and limits how much each producer may send. */
export class Feeds {
  readonly #options: FeedsOptions;
  readonly #feeds = new Map<string, Feed>();
  /** The buffer state that was last reported to producers. */
  #reportedRoom: Room = 'enough';

  constructor(options: FeedsOptions) {
    this.#options = options;
  }

  /** Returns true if a producer has opened the feed, or a program has read records from it. */
  has(name: string): boolean {
    return this.#feeds.has(name);
  }

  restore(stored: StoredFeeds): void {
    for (const [name, feed] of Object.entries(stored)) {
      this.#feeds.set(name, { queue: FeedQueue.restore(feed), links: new Map(), reported: new Map() });
    }
  }

  store(): StoredFeeds {
    return Object.fromEntries([...this.#feeds].map(([name, { queue }]) => [name, queue.store()]));
  }

  /**
   * Handles a reader's request.
   * @throws TonyError DATA_INVALID, USAGE
   */
  take(requester: Requester, body: unknown): Taken {
    const { feed: name, reader, at, producers } = parse(question, body);
    const feed = this.#open(name);
    const { answer, isNew } = feed.queue.take(readerOf(requester, reader), at, producers);
    if (isNew) {
      this.#options.note();
    }
    this.#report(feed);
    this.#reportRoom();
    return answer;
  }

  /**
   * Removes a reader, and returns its unconfirmed chunks to the queue.
   * @returns false if the reader is unknown
   */
  leave(requester: Requester, body: unknown): boolean {
    const { feed, reader } = parse(farewell, body);
    return this.#feeds.get(feed)?.queue.forget((each) => each === readerOf(requester, reader)) ?? false;
  }

  readonly opened = (link: ProducerLink, first: number, records: number): void => {
    const feed = this.#open(link.feed);
    const { queue, links } = feed;
    // Throws if there are too many producers. Check this first, because a rejected producer must not replace another connection.
    const expected = queue.open(link.producer, first, records);
    const before = links.get(link.producer);
    links.set(link.producer, link);
    // A producer has only one connection, so the previous connection is broken.
    before?.refuse(new Error('the producer has reconnected on another connection'));
    this.#options.note();
    this.#options.log.info({ feed: link.feed, producer: link.producer, expected }, 'a producer has connected');
    link.send({ expected, records: queue.receivedRecordsOf(link.producer), ...this.#progress(feed, link, this.#room()), over: false });
    // Each additional producer reduces every producer's window.
    this.#reportAll();
  };

  readonly received = (link: ProducerLink, message: TonyMessages['ProducerMessage']): void => {
    const feed = this.#feeds.get(link.feed);
    if (feed === undefined || feed.links.get(link.producer) !== link) {
      return;
    }
    const { queue } = feed;
    if (message.chunk) {
      const records = message.chunk.records ?? [];
      if (records.length > MAXIMUM_CHUNK_RECORDS) {
        throw new TonyError('USAGE', `a chunk may contain at most ${MAXIMUM_CHUNK_RECORDS} records`);
      }
      // The limit exceeds the window by one chunk, because a single record may be larger than the window. A producer exceeds this limit
      // only if its window has been reduced in the meantime. It then reconnects and receives its current window.
      if (queue.bytesOf(link.producer) > this.#window() * 2 + MAXIMUM_RECORD_BYTES) {
        throw new TonyError('INTERNAL', 'the producer has exceeded its send window');
      }
      // Other chunks have filled the buffer while this chunk was in flight. The producer reconnects with a window of 0 and waits. A chunk
      // that has already been assigned is accepted, because its reader is waiting for it.
      if (this.#held() + bytesOf(records) > MAXIMUM_HELD_BYTES && !queue.isAwaited(link.producer, message.chunk.sequence)) {
        throw new TonyError('INTERNAL', 'the feed buffer is full');
      }
      if (queue.put(link.producer, message.chunk.sequence, records)) {
        this.#options.changed();
      }
      this.#reportRoom();
    } else if (message.ending) {
      if (queue.end(link.producer, message.ending.last)) {
        this.#options.note();
      }
      this.#options.changed();
      this.#report(feed);
    }
  };

  readonly closed = (link: ProducerLink): void => {
    const feed = this.#feeds.get(link.feed);
    if (feed === undefined) {
      return;
    }
    feed.reported.delete(link);
    if (feed.links.get(link.producer) !== link) {
      return;
    }
    feed.links.delete(link.producer);
    this.#options.log.info(
      { feed: link.feed, producer: link.producer, ended: feed.queue.isDone(link.producer) },
      'a producer has disconnected',
    );
    this.#reportAll();
  };

  /** Takes back unconfirmed chunks from programs that are no longer running. */
  sweep(isAlive: (containerId: string, generation: number) => boolean): boolean {
    let found = false;
    for (const { queue } of this.#feeds.values()) {
      found =
        queue.forget((reader) => {
          const [containerId, generation] = JSON.parse(reader) as [string, number];
          return !isAlive(containerId, generation);
        }) || found;
    }
    return found;
  }

  close(): void {
    for (const { links } of this.#feeds.values()) {
      for (const link of [...links.values()]) {
        link.refuse(new Error('the ApplicationMaster is exiting'));
      }
    }
  }

  #open(name: string): Feed {
    let feed = this.#feeds.get(name);
    if (feed === undefined) {
      if (this.#feeds.size >= MAXIMUM_FEEDS) {
        throw new TonyError('USAGE', `a job may have at most ${MAXIMUM_FEEDS} feeds`);
      }
      feed = { queue: new FeedQueue(), links: new Map(), reported: new Map() };
      this.#feeds.set(name, feed);
    }
    return feed;
  }

  #reportAll(): void {
    this.#reportedRoom = this.#room();
    for (const feed of this.#feeds.values()) {
      this.#report(feed);
    }
  }

  #reportRoom(): void {
    if (this.#room() !== this.#reportedRoom) {
      this.#reportAll();
    }
  }

  /**
   * Reports to the producers how many of their records have been consumed. Once all of its records have been consumed, a producer exits,
   * and no other process has a copy of the records. The state must therefore be stored before this message is sent.
   */
  #report(feed: Feed): void {
    const room = this.#room();
    for (const link of feed.links.values()) {
      const message = this.#progress(feed, link, room);
      const key = JSON.stringify(message);
      if (feed.reported.get(link) === key) {
        continue;
      }
      feed.reported.set(link, key);
      if (!message.over) {
        link.send(message);
        continue;
      }
      this.#options.note();
      void this.#options
        .isDurable()
        .then((isOurs) => (isOurs ? link.send(message) : link.refuse(new Error('another ApplicationMaster has taken over'))))
        .catch((error: unknown) => link.refuse(new Error(messageOf(error))));
    }
  }

  #progress({ queue }: Feed, { producer }: ProducerLink, room: Room): TonyMessages['FeedMessage'] {
    const isShut = room === 'none' || (room === 'scarce' && queue.bytesOf(producer) > 0);
    const windowBytes = isShut && !queue.isAwaited(producer, 1) ? NO_WINDOW : this.#window();
    return { taken: queue.takenOf(producer), windowBytes, over: queue.isDone(producer), readers: queue.readers };
  }

  /** Returns the buffer state. Counts chunks from disconnected producers too, although windows limit only connected producers. */
  #room(): Room {
    const held = this.#held();
    if (held + MAXIMUM_MESSAGE_BYTES > MAXIMUM_HELD_BYTES) {
      return 'none';
    }
    return held > CAPACITY_BYTES * 2 ? 'scarce' : 'enough';
  }

  #held(): number {
    return [...this.#feeds.values()].reduce((sum, { queue }) => sum + queue.bytes, 0);
  }

  #window(): number {
    const producers = [...this.#feeds.values()].reduce((sum, { links }) => sum + links.size, 0);
    return Math.max(LEAST_WINDOW_BYTES, Math.floor(CAPACITY_BYTES / Math.max(1, producers)));
  }
}

function parse<T>(schema: z.ZodType<T>, body: unknown): T {
  const parsed = schema.safeParse(body);
  if (parsed.success) {
    return parsed.data;
  }
  throw new TonyError('DATA_INVALID', `a request to a feed is invalid: ${parsed.error.issues[0]?.message}`);
}

function readerOf({ containerId, generation }: Requester, reader: string): string {
  return JSON.stringify([containerId, generation, reader]);
}
