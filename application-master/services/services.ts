import { randomInt } from 'node:crypto';
import type { MasterService } from '../../conf/frameworks/framework.ts';
import type { DoorAddress } from '../../contract/partitions/partition-feed.ts';
import {
  FEED_KIND,
  FEED_LEAVE,
  FEED_TAKE,
  PARTITIONS_DOOR,
  PARTITIONS_NEXT_BATCH,
  PARTITIONS_OFFER,
  PARTITIONS_OPEN,
  PARTITIONS_PLAN,
  PARTITIONS_REPORT,
  PARTITIONS_STREAM,
  SPLITS_JOIN,
  SPLITS_NEXT,
  TRAINING_ENDED,
} from '../../contract/services/service-names.ts';
import { anySignal } from '../../platform/async/any-signal.ts';
import { pause } from '../../platform/async/backoff.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import type { TonyMessages } from '../../protos/tony-messages.ts';
import { Dispatcher, type Requester, type StoredDispatcher } from './dispatcher.ts';
import type { DurableNotes } from './durable-notes.ts';
import { Feeds, type StoredFeeds } from './feeds.ts';
import { PartitionFeeds, type StoredPartitionFeeds } from './partition-feeds.ts';
import type { ProducerEvents } from './producer-link.ts';

/** Maximum time in ms to delay the response to a request. After this time, the client repeats the request. */
const HOLD_MS = 10_000;
/** The same for an offer, because a waiting offer occupies a Spark executor that another rank may need more urgently. */
const OFFER_HOLD_MS = 3_000;
/** Interval in ms at which to check whether readers and workers are still running. */
const SWEEP_MS = 1_000;
const NOTHING = Buffer.alloc(0);

export interface ServicesOptions {
  /** @param content returns the complete state to store */
  readonly notes: (content: () => string) => DurableNotes;
  /** Resolves when this attempt has published its address. Before that, this attempt must not read the previous attempt's notes. */
  readonly addressed: Promise<unknown>;
  /** Returns true if a program from this generation may be running in the container. */
  readonly isAlive: (containerId: string, generation: number) => boolean;
  /** Returns true if the training has ended. */
  readonly hasTrainingEnded: () => boolean;
  /** Starts the server for producers. Called when a program reads a feed for the first time. */
  readonly openFeedServer: (events: ProducerEvents) => Promise<FeedServerHandle>;
  /** The service of the job's framework, or null if it has none. */
  readonly framework: MasterService | null;
  readonly log: Logger;
}

export interface FeedServerHandle {
  /** Publishes the executors' doors for sources, together with the address of this server. */
  publish(doors: readonly DoorAddress[]): void;
  close(): void;
}

export interface ServiceCall extends Requester {
  readonly service: string;
  readonly body: Uint8Array;
  /** Aborted when the client no longer waits for the response. */
  readonly signal: AbortSignal;
}

interface StoredServices {
  readonly splits: StoredDispatcher;
  readonly feeds: StoredFeeds;
  readonly partitions: StoredPartitionFeeds;
}

interface Answered {
  readonly answer: unknown;
  /** Feeds for which programs wait. For a Spark program that waits too, because one of both may have misspelled a name. */
  readonly unsent?: readonly string[];
  readonly body?: Uint8Array;
}

/** The ApplicationMaster's services for the job's programs: splits, feeds, the end of the training, and the service of the job's framework. */
export class JobServices {
  readonly #options: ServicesOptions;
  readonly #notes: DurableNotes;
  #dispatcher = new Dispatcher();
  readonly #feeds: Feeds;
  readonly #partitions: PartitionFeeds;
  #feedServer: Promise<FeedServerHandle> | null = null;
  #restored: Promise<void> | null = null;
  #unsaved: Promise<boolean> | null = null;
  /** Aborted and replaced whenever the state changes. Pending requests wait for the abort. */
  #change = new AbortController();
  readonly #sweeper: NodeJS.Timeout;
  #closed = false;

  constructor(options: ServicesOptions) {
    this.#options = options;
    this.#notes = options.notes(() =>
      JSON.stringify({
        version: 1,
        splits: this.#dispatcher.store(),
        feeds: this.#feeds.store(),
        partitions: this.#partitions.store(),
      }),
    );
    this.#feeds = new Feeds({
      note: () => this.#note(),
      changed: () => this.#wake(),
      isDurable: () => this.#isDurable(),
      log: options.log,
    });
    this.#partitions = new PartitionFeeds({
      note: () => this.#note(),
      changed: () => this.#wake(),
      publish: (doors) => void this.#feedServer?.then((server) => server.publish(doors)).catch(() => {}),
      firstVersion: randomInt(2 ** 40),
      now: () => performance.now(),
      log: options.log,
    });
    this.#sweeper = setInterval(() => this.#sweep(), SWEEP_MS);
  }

  /** Handles a request. Returns null if another attempt has taken over, so that the client sends the request to the new attempt. */
  async serve(call: ServiceCall): Promise<TonyMessages['ServiceAnswer'] | null> {
    try {
      this.#restored ??= this.#restore();
      await this.#restored;
      const answered = await this.#answer(call);
      if (answered === null || this.#closed) {
        return null;
      }
      const { body = NOTHING, ...head } = answered;
      return { head: Buffer.from(JSON.stringify(head)), body };
    } catch (error) {
      const known = error instanceof TonyError ? error : new TonyError('INTERNAL', messageOf(error), { cause: error });
      this.#options.log.warn(
        { container: call.containerId, service: call.service, error: messageOf(error) },
        'a service rejected a request',
      );
      // An attempt that has been replaced must not send errors either, because the client would treat them as valid responses.
      this.#note();
      if (!(await this.#isDurable())) {
        return null;
      }
      const { code, message, hint } = known;
      return { head: Buffer.from(JSON.stringify({ error: { code, message, hint } })), body: NOTHING };
    }
  }

  close(): void {
    this.#closed = true;
    clearInterval(this.#sweeper);
    this.#feeds.close();
    this.#options.framework?.close();
    void this.#feedServer?.then(
      (server) => server.close(),
      () => {},
    );
    this.#notes.close();
    this.#wake();
  }

  async #answer(call: ServiceCall): Promise<Answered | null> {
    switch (call.service) {
      case SPLITS_JOIN: {
        if (this.#dispatcher.join(call, parseBody(call.body))) {
          this.#note();
        }
        return (await this.#isDurable()) ? { answer: 'joined' } : null;
      }
      case SPLITS_NEXT:
        return await this.#held(call, (body) => {
          const { answer, isNew } = this.#dispatcher.next(call, body);
          if (isNew) {
            this.#note();
          }
          return answer;
        });
      case TRAINING_ENDED:
        return { answer: this.#options.hasTrainingEnded() };
      case FEED_KIND:
        return await this.#kind(call);
      case PARTITIONS_DOOR: {
        await this.#openFeedServer();
        this.#partitions.register(call, parseBody(call.body));
        return { answer: 'published' };
      }
      case PARTITIONS_REPORT: {
        const answerOf = this.#partitions.report(call, parseBody(call.body));
        return await this.#held(call, answerOf);
      }
      case PARTITIONS_OPEN:
        return this.#withUnsent(await this.#fromSource(call, (body) => this.#partitions.open(body)));
      case PARTITIONS_OFFER:
        return await this.#held(call, (body) => this.#partitions.offer(body), OFFER_HOLD_MS);
      case PARTITIONS_PLAN:
        return await this.#fromSource(call, (body) => this.#partitions.plan(body));
      case PARTITIONS_STREAM:
        return this.#withUnsent(await this.#fromSource(call, (body) => this.#partitions.stream(body)));
      case PARTITIONS_NEXT_BATCH:
        return await this.#held(call, (body) => this.#partitions.nextBatch(call, body));
      case FEED_TAKE:
        return await this.#take(call);
      case FEED_LEAVE:
        if (this.#feeds.leave(call, parseBody(call.body))) {
          this.#note();
        }
        return (await this.#isDurable()) ? { answer: 'left' } : null;
      default: {
        const answered = await this.#options.framework?.serve({ ...call, body: parseBody(call.body) });
        if (answered == null) {
          throw new TonyError('USAGE', `unknown service ${call.service}`, { hint: 'Use the same version of tony-ts on all machines.' });
        }
        return answered;
      }
    }
  }

  /** Waits for the first producer or source of a feed. */
  async #kind(call: ServiceCall): Promise<Answered | null> {
    await this.#openFeedServer();
    return await this.#held(call, (body) => {
      const kind = this.#partitions.kind(call, body);
      return kind === 'wait' && this.#feeds.has((body as { feed: string }).feed) ? 'records' : kind;
    });
  }

  /** Answers the driver of a Spark program, and notes if it does not wait for the answer. */
  async #fromSource(call: ServiceCall, ask: (body: unknown) => unknown): Promise<Answered | null> {
    const answered = await this.#held(call, ask);
    if (call.signal.aborted) {
      this.#partitions.driverLeft(parseBody(call.body));
      this.#wake();
    }
    return answered;
  }

  #withUnsent(answered: Answered | null): Answered | null {
    const unsent = this.#partitions.unsent.filter((name) => !this.#feeds.has(name));
    return answered?.answer === 'wait' && unsent.length > 0 ? { ...answered, unsent } : answered;
  }

  async #openFeedServer(): Promise<void> {
    this.#feedServer ??= this.#options.openFeedServer(this.#feeds);
    try {
      await this.#feedServer;
    } catch (error) {
      this.#feedServer = null;
      throw new TonyError('INTERNAL', `the feed cannot be opened: ${messageOf(error)}`, { cause: error });
    }
  }

  async #take(call: ServiceCall): Promise<Answered | null> {
    await this.#openFeedServer();
    const answered = await this.#held(call, (body) => this.#feeds.take(call, body));
    if (answered === null || typeof answered.answer === 'string') {
      return answered;
    }
    const { records } = answered.answer as { records: readonly Uint8Array[] };
    return { answer: { lengths: records.map(({ length }) => length) }, body: Buffer.concat(records) };
  }

  /** Retries a request until a response is available. Returns the response once the state has been stored. */
  async #held(call: ServiceCall, ask: (body: unknown) => unknown, holdMs = HOLD_MS): Promise<Answered | null> {
    const until = performance.now() + holdMs;
    const body = parseBody(call.body);
    for (;;) {
      const answer = ask(body);
      // Store the state even for a repeated request, because the first request may have changed the state.
      if (answer !== 'wait' && !(await this.#isDurable())) {
        return null;
      }
      const left = until - performance.now();
      if (answer !== 'wait' || left <= 0 || call.signal.aborted || this.#closed) {
        return { answer };
      }
      await pause(left, anySignal([call.signal, this.#change.signal]));
      // The client has sent a newer request, which this one must not undo.
      if (call.signal.aborted) {
        return { answer };
      }
    }
  }

  #note(): void {
    const saving = this.#notes.save();
    this.#unsaved = saving;
    void saving.then((isOurs) => {
      // Discard unsaved state, because a takeover is final.
      if (!isOurs) {
        this.#closed = true;
      }
      if (this.#unsaved === saving) {
        this.#unsaved = null;
      }
    });
    this.#wake();
  }

  /** Resolves to true when the current state is stored, or to false if another attempt has taken over. */
  async #isDurable(): Promise<boolean> {
    return (await (this.#unsaved ?? true)) && !this.#closed;
  }

  #wake(): void {
    this.#change.abort();
    this.#change = new AbortController();
  }

  #sweep(): void {
    const { isAlive } = this.#options;
    const found = this.#dispatcher.sweep(isAlive);
    this.#partitions.sweep(isAlive);
    if (this.#feeds.sweep(isAlive) || found) {
      this.#note();
    }
  }

  async #restore(): Promise<void> {
    await this.#options.addressed;
    const text = await this.#notes.earlier();
    if (text === null) {
      return;
    }
    try {
      const { splits, feeds, partitions } = JSON.parse(text) as StoredServices;
      this.#dispatcher = Dispatcher.restore(splits);
      this.#feeds.restore(feeds);
      this.#partitions.restore(partitions);
    } catch (error) {
      // Readers receive a SPLITS_FORGOTTEN response and report their splits again.
      this.#options.log.error({ error: messageOf(error) }, 'could not read the data assignments of an earlier attempt');
    }
    // The previous attempt may not have sent all stored assignments. Store them for this attempt too before it responds to any request.
    this.#note();
  }
}

function parseBody(body: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(body).toString('utf8'));
  } catch (error) {
    throw new TonyError('DATA_INVALID', `a request is not valid JSON: ${messageOf(error)}`);
  }
}
