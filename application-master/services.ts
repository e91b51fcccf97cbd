import { messageOf, TonyError } from '../conf/errors.ts';
import type { Logger } from '../conf/log.ts';
import type { ServiceAnswer } from '../protos/executor-protocol.ts';
import { SPLITS_JOIN, SPLITS_NEXT } from '../training/datasets/split-giver.ts';
import { type Asker, Dispatcher, type StoredDispatcher } from './dispatcher.ts';
import type { DurableNotes } from './durable-notes.ts';

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
  readonly log: Logger;
}

export interface ServiceCall extends Asker {
  readonly service: string;
  readonly body: Uint8Array;
  /** Aborted when nobody waits for the answer any more. */
  readonly signal: AbortSignal;
}

/** What the ApplicationMaster does for the programs of its job. */
export class Services {
  readonly #options: ServicesOptions;
  readonly #notes: DurableNotes;
  #dispatcher = new Dispatcher();
  #restored: Promise<void> | null = null;
  /** Of what is known but not written down yet. */
  #unsaved: Promise<boolean> | null = null;
  readonly #waiting = new Set<() => void>();
  readonly #sweeper: NodeJS.Timeout;
  #closed = false;

  constructor(options: ServicesOptions) {
    this.#options = options;
    this.#notes = options.notes(() => JSON.stringify({ version: 1, splits: this.#dispatcher.store() }));
    this.#sweeper = setInterval(() => this.#sweep(), SWEEP_MS);
  }

  /** Null when this attempt has no say any more: another one is to be asked. */
  async serve(call: ServiceCall): Promise<ServiceAnswer | null> {
    try {
      this.#restored ??= this.#restore();
      await this.#restored;
      const answer = await this.#answer(call);
      return answer === null || this.#closed ? null : { head: Buffer.from(JSON.stringify({ answer })), body: NOTHING };
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
    this.#notes.close();
    this.#wake();
  }

  async #answer(call: ServiceCall): Promise<unknown> {
    switch (call.service) {
      case SPLITS_JOIN: {
        if (this.#dispatcher.join(call, parseBody(call.body))) this.#note();
        return (await this.#isDurable()) ? 'joined' : null;
      }
      case SPLITS_NEXT:
        return await this.#nextSplit(call);
      default:
        throw new TonyError('USAGE', `there is no service ${call.service}`, { hint: 'Use the same version of tony-ts everywhere.' });
    }
  }

  async #nextSplit(call: ServiceCall): Promise<unknown> {
    const until = performance.now() + HOLD_MS;
    const body = parseBody(call.body);
    for (;;) {
      const { answer, isNew } = this.#dispatcher.next(call, body);
      if (isNew) this.#note();
      // What an earlier saying of the same question has changed may not be written down yet either.
      if (answer !== 'wait' && !(await this.#isDurable())) return null;
      const left = until - performance.now();
      if (answer !== 'wait' || left <= 0 || call.signal.aborted || this.#closed) return answer;
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
    if (this.#dispatcher.sweep(this.#options.isAlive)) this.#note();
  }

  async #restore(): Promise<void> {
    await this.#options.addressed;
    const text = await this.#notes.earlier();
    if (text === null) return;
    try {
      const { splits } = JSON.parse(text) as { splits: StoredDispatcher };
      this.#dispatcher = Dispatcher.restore(splits);
    } catch (error) {
      // Readers are told that they are forgotten, and say what they have.
      this.#options.log.error({ error: messageOf(error) }, 'what an earlier attempt has promised is unreadable');
    }
  }
}

function parseBody(body: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(body).toString('utf8'));
  } catch (error) {
    throw new TonyError('DATA_INVALID', `a question is no JSON: ${messageOf(error)}`);
  }
}
