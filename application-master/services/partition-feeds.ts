import * as z from 'zod';
import {
  batchPrefix,
  type DoorAddress,
  doorAddress,
  type FeedPlan,
  feedName,
  feedOpening,
  type NeededPiece,
  parseFeedRequest,
  type RankPieces,
  rankReport,
} from '../../contract/partitions/partition-feed.ts';
import { TonyError } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import type { Requester } from './dispatcher.ts';
import { FeedStream, type MicroBatch, readerQuestion, sourceQuestion } from './feed-stream.ts';
import { PartitionFeed, type StoredPartitionFeed } from './partition-feed.ts';
import { SourceLife } from './source-life.ts';

const MAXIMUM_FEEDS = 64;
/** Version of the plan while the source counts its records. */
const COUNTING = 0;

const count = z.number().int().nonnegative();
const kindQuestion = z.object({ feed: feedName, worldSize: count.min(1), door: doorAddress });
const openQuestion = z.object({ feed: feedName, opening: feedOpening });
const planQuestion = z.object({
  feed: feedName,
  source: z.string().max(100),
  /** Version of the plan that the source knows. */
  version: count.nullable(),
});
const nextBatchQuestion = readerQuestion.extend({ door: doorAddress });
const leftQuestion = z.object({ feed: feedName });
const offerQuestion = z.object({ feed: feedName, source: z.string().max(100), partition: count });

export type StoredPartitionFeeds = Readonly<Record<string, StoredPartitionFeed>>;

export interface PartitionFeedsOptions {
  /** Called when the state has changed and must be stored. */
  readonly note: () => void;
  /** Called when it may have become possible to respond to a waiting request. */
  readonly changed: () => void;
  /** Publishes the executors' doors for sources. */
  readonly publish: (doors: readonly DoorAddress[]) => void;
  /** First version of a plan. It differs between attempts, because sources wait for another version than the one they know. */
  readonly firstVersion: number;
  /** Returns the time in ms. */
  readonly now: () => number;
  readonly log: Logger;
}

interface Name {
  /** Null until a program reads the feed and its source has opened it. */
  feed: PartitionFeed | null;
  opening: z.infer<typeof feedOpening> | null;
  worldSize: number | null;
  readonly source: SourceLife;
}

interface RegisteredDoor extends DoorAddress {
  readonly generation: number;
}

/** Manages all of a job's partitioned feeds, and the doors at which executors receive their pieces. */
export class PartitionFeeds {
  readonly #options: PartitionFeedsOptions;
  readonly #names = new Map<string, Name>();
  readonly #streams = new Map<string, FeedStream>();
  readonly #doors = new Map<string, RegisteredDoor>();
  /** Time in ms since which there has been no new door. */
  #doorsSince: number;

  constructor(options: PartitionFeedsOptions) {
    this.#options = options;
    this.#doorsSince = options.now();
  }

  restore(stored: StoredPartitionFeeds): void {
    for (const [name, each] of Object.entries(stored)) {
      const feed = PartitionFeed.restore(each, this.#options.firstVersion);
      this.#names.set(name, { feed, opening: feed.opening, worldSize: feed.worldSize, source: new SourceLife(this.#options.now()) });
    }
  }

  store(): StoredPartitionFeeds {
    return Object.fromEntries([...this.#names].flatMap(([name, { feed }]) => (feed === null ? [] : [[name, feed.store()]])));
  }

  /** Returns what the feed consists of, or 'wait' if no source has opened it. Registers the executor's door, so that sources find the job. */
  kind(requester: Requester, body: unknown): 'partitions' | 'stream' | 'wait' {
    const { feed, worldSize, door } = parseFeedRequest(kindQuestion, body);
    this.#register(requester, door);
    if (this.#streams.has(feed)) {
      return 'stream';
    }
    const name = this.#name(feed);
    this.#read(feed, name, worldSize);
    if (name.feed !== null) {
      return 'partitions';
    }
    this.#requireSource(feed, name);
    return 'wait';
  }

  /** Returns the names of the feeds that programs read, but no Spark program sends. */
  get unsent(): readonly string[] {
    const isUnsent = ([name, { opening, worldSize }]: [string, Name]) => worldSize !== null && opening === null && !this.#streams.has(name);
    return [...this.#names].filter(isUnsent).map(([name]) => name);
  }

  /** Publishes an executor's door. */
  register(requester: Requester, body: unknown): void {
    this.#register(requester, parseFeedRequest(doorAddress, body));
  }

  /**
   * Handles an executor's report about one of its ranks.
   * @returns a function that returns the answer, or 'wait' if there is none yet. It records the report only once: if it recorded the report
   *   again whenever something changes, an older report that still waits would undo a newer one
   */
  report(requester: Requester, body: unknown): () => RankPieces | 'wait' {
    const report = parseFeedRequest(rankReport, body);
    this.#register(requester, report.door);
    const name = this.#name(report.feed);
    let changed: RankPieces['changed'] | null = null;
    return () => {
      this.#read(report.feed, name, report.worldSize);
      const { feed } = name;
      if (feed === null) {
        this.#requireSource(report.feed, name);
        return 'wait';
      }
      if (changed === null) {
        const { revision } = feed;
        const recorded = feed.report(report);
        changed = recorded.changed;
        if (recorded.isNew) {
          this.#options.note();
        } else if (feed.revision !== revision) {
          this.#options.changed();
        }
      }
      if (feed.needsSource) {
        this.#requireSource(report.feed, name);
      }
      return feed.answerTo(report, changed);
    };
  }

  /**
   * Opens a feed for a source. The same source may repeat the request.
   * @throws TonyError USAGE
   */
  open(body: unknown): 'opened' | 'wait' {
    const { feed, opening } = parseFeedRequest(openQuestion, body);
    const name = this.#name(feed);
    name.source.driverAsked(this.#options.now());
    if (name.opening !== null && name.opening.source !== opening.source) {
      throw new TonyError('USAGE', `another program already sends feed ${feed}`, {
        hint: 'A partitioned feed has one source. Give each source its own feed, or start a new job.',
      });
    }
    name.opening = opening;
    this.#begin(feed, name);
    return name.feed !== null || mustCount(opening) ? 'opened' : 'wait';
  }

  /** Returns the pieces that a source must send, or 'wait' if nothing has changed since `version`. */
  plan(body: unknown): (FeedPlan & { readonly received: PartitionFeed['received'] }) | 'wait' {
    const { feed, source, version } = parseFeedRequest(planQuestion, body);
    const { feed: opened, source: life } = this.#ofSource(feed, source);
    life.driverAsked(this.#options.now());
    if (opened === null) {
      // A source that counts its records asks again and again, and so shows that it lives.
      return version === COUNTING
        ? 'wait'
        : { version: COUNTING, needed: [], unassigned: [], counting: true, readers: 0, received: { records: 0, isAll: false } };
    }
    const plan = opened.plan();
    return plan.version === version ? 'wait' : { ...plan, received: opened.received };
  }

  /** Returns the pieces to send of a partition that a source is about to compute, or 'count' if it must only count the records. */
  offer(body: unknown): readonly NeededPiece[] | 'wait' | 'count' {
    const { feed, source, partition } = parseFeedRequest(offerQuestion, body);
    const { feed: opened, source: life } = this.#ofSource(feed, source);
    life.taskAsked(this.#options.now());
    if (opened === null) {
      return 'count';
    }
    const { answer, isNew } = opened.offer(partition);
    if (isNew) {
      this.#options.note();
    }
    return answer;
  }

  /** Handles the question of a Spark program about its stream. See FeedStream.ask. */
  stream(body: unknown): ReturnType<FeedStream['ask']> {
    const question = parseFeedRequest(sourceQuestion, body);
    return this.#onStream(question.feed, (stream) => stream.ask(question, this.#options.now()));
  }

  /** Handles the question of a program about the next micro-batch of a stream. See FeedStream.next. */
  nextBatch(requester: Requester, body: unknown): MicroBatch | 'over' | 'wait' {
    const { door, ...question } = parseFeedRequest(nextBatchQuestion, body);
    this.#register(requester, door);
    return this.#onStream(question.feed, (stream) => stream.next(question, this.#options.now(), this.#doorsSince));
  }

  /** The connection of a source's driver has closed before it has got an answer. */
  driverLeft(body: unknown): void {
    const { feed } = parseFeedRequest(leftQuestion, body);
    const source = this.#streams.get(feed)?.source ?? this.#names.get(feed)?.source;
    source?.driverLeft(this.#options.now());
  }

  /** @throws TonyError FEED_LOST if the source of a feed is lost. A feed without a source waits for one. */
  #requireSource(feed: string, { opening, source }: Name): void {
    if (opening !== null) {
      source.require(`feed ${feed}`, this.#doorsSince, this.#options.now());
    }
  }

  #onStream<Answer>(name: string, ask: (stream: FeedStream) => Answer): Answer {
    let stream = this.#streams.get(name);
    if (stream === undefined) {
      if (this.#streams.size >= MAXIMUM_FEEDS) {
        throw new TonyError('USAGE', `a job can read at most ${MAXIMUM_FEEDS} streams`);
      }
      stream = new FeedStream(name, this.#options.now());
      this.#streams.set(name, stream);
      // A program may already wait for the feed.
      this.#options.changed();
    }
    const { revision } = stream;
    const answer = ask(stream);
    if (stream.revision !== revision) {
      this.#forgetBatches(name, stream.batch?.feed);
      this.#options.changed();
    }
    return answer;
  }

  /** Forgets the feeds of a stream's earlier batches, which a checkpoint contains. */
  #forgetBatches(stream: string, current: string | undefined): void {
    const earlier = [...this.#names.keys()].filter((name) => name.startsWith(batchPrefix(stream)) && name !== current);
    for (const name of earlier) {
      this.#names.delete(name);
    }
    if (earlier.length > 0) {
      this.#options.note();
    }
  }

  /** Returns a source's feed, which is null if the source must count its records first. */
  #ofSource(feed: string, source: string): Name {
    const name = this.#name(feed);
    // An attempt that has just started does not know a source that still counts its records.
    if (name.opening !== null && name.opening.source !== source) {
      throw new TonyError('USAGE', `this program does not send feed ${feed}`);
    }
    return name;
  }

  /** Forgets the doors of containers whose programs have ended. */
  sweep(isAlive: (containerId: string, generation: number) => boolean): void {
    const before = this.#doors.size;
    for (const [containerId, { generation }] of this.#doors) {
      if (!isAlive(containerId, generation)) {
        this.#doors.delete(containerId);
      }
    }
    if (this.#doors.size === before) {
      return;
    }
    const open = new Set([...this.#doors.values()].map(({ host, port }) => `${host}:${port}`));
    for (const { feed } of this.#names.values()) {
      feed?.leave(({ host, port }) => open.has(`${host}:${port}`));
    }
    this.#publish();
    this.#options.changed();
  }

  #register({ containerId, generation }: Requester, { host, port }: DoorAddress): void {
    const before = this.#doors.get(containerId);
    this.#doors.set(containerId, { host, port, generation });
    if (before?.host !== host || before.port !== port) {
      this.#doorsSince = this.#options.now();
      this.#publish();
    }
  }

  #publish(): void {
    this.#options.publish([...this.#doors.values()].map(({ host, port }) => ({ host, port })));
  }

  #name(feed: string): Name {
    let name = this.#names.get(feed);
    if (name === undefined) {
      if (this.#names.size >= MAXIMUM_FEEDS) {
        throw new TonyError('USAGE', `a job can read at most ${MAXIMUM_FEEDS} feeds`);
      }
      name = { feed: null, opening: null, worldSize: null, source: new SourceLife(this.#options.now()) };
      this.#names.set(feed, name);
    }
    return name;
  }

  #read(feed: string, name: Name, worldSize: number): void {
    name.worldSize ??= worldSize;
    this.#begin(feed, name);
  }

  #begin(feed: string, name: Name): void {
    if (name.feed !== null || name.opening === null || name.worldSize === null || mustCount(name.opening)) {
      return;
    }
    try {
      name.feed = PartitionFeed.open(feed, name.opening, name.worldSize, this.#options.firstVersion);
    } catch (error) {
      // The source may correct its mistake and open the feed again.
      name.opening = null;
      throw error;
    }
    const { partitions, shards } = name.opening;
    this.#options.log.info({ feed, partitions, shards, ranks: name.worldSize }, 'a source has opened a partitioned feed');
    this.#options.note();
  }
}

/** Returns true if the source must count its records before they can be divided. It then opens the feed again, with the counts. */
function mustCount({ shards, counts }: z.infer<typeof feedOpening>): boolean {
  return shards === 'equal' && counts === null;
}
