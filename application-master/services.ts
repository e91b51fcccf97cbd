import { messageOf, TonyError } from '../conf/errors.ts';
import type { Logger } from '../conf/log.ts';
import type { ServiceAnswer } from '../protos/executor-protocol.ts';
import { FEED_LEAVE, FEED_TAKE, SPLITS_JOIN, SPLITS_NEXT } from '../training/service-names.ts';
import { type Asker, Dispatcher, type StoredDispatcher } from './dispatcher.ts';
import type { DurableNotes } from './durable-notes.ts';
import type { FeedServer, FeedServerOptions } from './feed-server.ts';
import { Feeds, type StoredFeeds } from './feeds.ts';

/** A question that cannot be answered now is held for so long; then the asker hears that, and asks again. */
const HOLD_MS = 10_000;
/** How often those who hold something are looked at. */
const SWEEP_MS = 1_000;
const NOTHING = Buffer.alloc(0);

export interface ServicesOptions {
  /** @param content gives all that is to be written down. */
  readonly notes: (content: () => string) => DurableNotes;
  /** Resolves when this attempt has said where it is: only then may it read what the one before has left. */
  readonly addressed: Promise<unknown>;
  /** Whether a program of that generation may run in the container. */
  readonly isAlive: (containerId: string, generation: number) => boolean;
  /** Lets producers in; called when a program reads a feed for the first time. */
  readonly openFeedServer: (feeds: Pick<FeedServerOptions, 'opened' | 'said' | 'closed'>) => Promise<FeedServer>;
  readonly log: Logger;
}

export interface ServiceCall extends Asker {
  readonly service: string;
  readonly body: Uint8Array;
  /** Aborted when nobody waits for the answer any more. */
  readonly signal: AbortSignal;
}

interface Answered {
  readonly answer: unknown;
  readonly body?: Uint8Array;
}

/** What the ApplicationMaster does for the programs of its job. */
export class Services {
  readonly #options: ServicesOptions;
  readonly #notes: DurableNotes;
  #dispatcher = new Dispatcher();
  readonly #feeds: Feeds;
  #feedServer: Promise<FeedServer> | null = null;
  #restored: Promise<void> | null = null;
  /** Of what is known but not written down yet. */
  #unsaved: Promise<boolean> | null = null;
  readonly #waiting = new Set<() => void>();
  readonly #sweeper: NodeJS.Timeout;
  #closed = false;

  constructor(options: ServicesOptions) {
    this.#options = options;
    this.#notes = options.notes(() => JSON.stringify({ version: 1, splits: this.#dispatcher.store(), feeds: this.#feeds.store() }));
    this.#feeds = new Feeds({
      note: () => this.#note(),
      changed: () => this.#wake(),
      isDurable: () => this.#isDurable(),
      log: options.log,
    });
    this.#sweeper = setInterval(() => this.#sweep(), SWEEP_MS);
  }

  /** Null when this attempt has no say any more: another one is to be asked. */
  async serve(call: ServiceCall): Promise<ServiceAnswer | null> {
    try {
      this.#restored ??= this.#restore();
      await this.#restored;
      const answered = await this.#answer(call);
      if (answered === null || this.#closed) return null;
      return { head: Buffer.from(JSON.stringify({ answer: answered.answer })), body: answered.body ?? NOTHING };
    } catch (error) {
      const known = error instanceof TonyError ? error : new TonyError('INTERNAL', messageOf(error), { cause: error });
      this.#options.log.warn({ container: call.containerId, service: call.service, error: messageOf(error) }, 'a service refused');
      // A refusal counts as much as a promise: it must not come from one who has no say any more.
      this.#note();
      if (!(await this.#isDurable())) return null;
      const { code, message, hint } = known;
      return { head: Buffer.from(JSON.stringify({ error: { code, message, hint } })), body: NOTHING };
    }
  }

  close(): void {
    this.#closed = true;
    clearInterval(this.#sweeper);
    this.#feeds.close();
    void this.#feedServer?.then(
      (server) => server.close(),
      () => {},
    );
    this.#notes.close();
    this.#wake();
  }

  /** Null when this attempt has no say any more. */
  async #answer(call: ServiceCall): Promise<Answered | null> {
    switch (call.service) {
      case SPLITS_JOIN: {
        if (this.#dispatcher.join(call, parseBody(call.body))) this.#note();
        return (await this.#isDurable()) ? { answer: 'joined' } : null;
      }
      case SPLITS_NEXT:
        return await this.#held(call, (body) => {
          const { answer, isNew } = this.#dispatcher.next(call, body);
          if (isNew) this.#note();
          return answer;
        });
      case FEED_TAKE:
        return await this.#take(call);
      case FEED_LEAVE:
        if (this.#feeds.leave(call, parseBody(call.body))) this.#note();
        return (await this.#isDurable()) ? { answer: 'left' } : null;
      default:
        throw new TonyError('USAGE', `there is no service ${call.service}`, { hint: 'Use the same version of tony-ts everywhere.' });
    }
  }

  async #take(call: ServiceCall): Promise<Answered | null> {
    this.#feedServer ??= this.#options.openFeedServer(this.#feeds);
    try {
      await this.#feedServer;
    } catch (error) {
      this.#feedServer = null;
      throw new TonyError('INTERNAL', `the feed cannot be opened: ${messageOf(error)}`, { cause: error });
    }
    const answered = await this.#held(call, (body) => this.#feeds.take(call, body));
    if (answered === null || typeof answered.answer === 'string') return answered;
    const { records } = answered.answer as { records: readonly Uint8Array[] };
    return { answer: { lengths: records.map(({ length }) => length) }, body: Buffer.concat(records) };
  }

  /** Asks until there is something to say, and says it only when it is written down. */
  async #held(call: ServiceCall, ask: (body: unknown) => unknown): Promise<Answered | null> {
    const until = performance.now() + HOLD_MS;
    const body = parseBody(call.body);
    for (;;) {
      const answer = ask(body);
      // What an earlier saying of the same question has changed may not be written down yet either.
      if (answer !== 'wait' && !(await this.#isDurable())) return null;
      const left = until - performance.now();
      if (answer !== 'wait' || left <= 0 || call.signal.aborted || this.#closed) return { answer };
      await this.#changed(left, call.signal);
    }
  }

  /** Something is to be written down. */
  #note(): void {
    const saving = this.#notes.save();
    this.#unsaved = saving;
    void saving.then((isOurs) => {
      // Once another attempt has taken over it stays so: what is known here and was not written down is nobody's knowledge.
      if (!isOurs) this.#closed = true;
      if (this.#unsaved === saving) this.#unsaved = null;
    });
    this.#wake();
  }

  /** When all that is known is written down; false when this attempt has no say any more. */
  async #isDurable(): Promise<boolean> {
    return (await (this.#unsaved ?? true)) && !this.#closed;
  }

  /** Until something has changed, but not for longer than that. */
  async #changed(ms: number, signal: AbortSignal): Promise<void> {
    await new Promise<void>((resolve) => {
      const done = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', done);
        this.#waiting.delete(done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      signal.addEventListener('abort', done);
      this.#waiting.add(done);
    });
  }

  #wake(): void {
    for (const wake of [...this.#waiting]) wake();
  }

  #sweep(): void {
    const { isAlive } = this.#options;
    const found = this.#dispatcher.sweep(isAlive);
    if (this.#feeds.sweep(isAlive) || found) this.#note();
  }

  async #restore(): Promise<void> {
    await this.#options.addressed;
    const text = await this.#notes.earlier();
    if (text === null) return;
    try {
      const { splits, feeds } = JSON.parse(text) as { splits: StoredDispatcher; feeds: StoredFeeds };
      this.#dispatcher = Dispatcher.restore(splits);
      this.#feeds.restore(feeds);
    } catch (error) {
      // Readers are told that they are forgotten, and say what they have.
      this.#options.log.error({ error: messageOf(error) }, 'what an earlier attempt has promised is unreadable');
    }
    // It may hold what its writer could not promise any more: nothing of it is said before it is this attempt's own promise.
    this.#note();
  }
}

function parseBody(body: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(body).toString('utf8'));
  } catch (error) {
    throw new TonyError('DATA_INVALID', `a question is no JSON: ${messageOf(error)}`);
  }
}
