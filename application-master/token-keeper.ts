import type { IssuedTokens } from '../hadoop/configuration/login/keytab-tokens.ts';
import type { Credentials, Token } from '../hadoop/rpc/credentials.ts';
import { writeCredentials } from '../hadoop/rpc/credentials-file.ts';
import { decodeDelegationIdentifier } from '../hadoop/security/delegation-identifier.ts';
import { isFileSystemToken, KEY_SERVER_TOKEN_KIND } from '../hadoop/security/fetch-tokens.ts';
import { pause } from '../platform/async/backoff.ts';
import { messageOf, TonyError } from '../platform/errors.ts';
import type { Logger } from '../platform/log.ts';
import type { UntimedEvent } from './job/state/events.ts';

/** The period during which a job's tokens are valid. Both times are in ms since the epoch. */
interface TokenLifetime {
  readonly issuedAt: number;
  readonly endsAt: number;
}

const DAY_MS = 86_400_000;
/** Tokens are replaced after this fraction of their lifetime. The remaining time allows for retries. */
const REPLACED_AFTER = 3 / 4;
/** Pause before the next attempt to replace tokens: a fraction of the remaining lifetime, with a minimum and a maximum in ms. */
const RETRY = { part: 1 / 20, leastMs: 2_000, mostMs: 60_000 };

/**
 * Returns the lifetime of the token that expires first. Considers only tokens that the ResourceManager renews, and returns null if there
 * are none. Ignores the ResourceManager's own tokens, because the ApplicationMaster does not need them and their identifiers have a
 * different format.
 */
export function lifetimeOf(tokens: readonly Token[]): TokenLifetime | null {
  const renewed = tokens.filter((token) => isFileSystemToken(token) || token.kind === KEY_SERVER_TOKEN_KIND);
  const [first, ...others] = renewed.map(({ identifier }) => decodeDelegationIdentifier(identifier));
  return first === undefined ? null : others.reduce((least, each) => (each.endsAt < least.endsAt ? each : least), first);
}

/**
 * Returns the time at which to announce that the tokens will expire. This is one day before they expire or, if their lifetime is shorter
 * than a week, one seventh of that lifetime before they expire.
 */
export function announcedAt({ issuedAt, endsAt }: TokenLifetime): number {
  return endsAt - Math.min(DAY_MS, (endsAt - issuedAt) / 7);
}

/** Returns the time at which to replace newly issued tokens. */
export function replacedAt({ issuedAt, endsAt }: TokenLifetime): number {
  return issuedAt + REPLACED_AFTER * (endsAt - issuedAt);
}

/** Returns the pause in ms before the next attempt to replace tokens. */
export function retryPauseMs({ endsAt }: TokenLifetime, now: number): number {
  return Math.min(RETRY.mostMs, Math.max(RETRY.leastMs, (endsAt - now) * RETRY.part));
}

export interface TokenKeeperOptions {
  readonly credentials: Credentials;
  /** The container's credentials file, from which storage reads the tokens. */
  readonly file: string;
  /** Obtains new tokens with the job's keytab. Null if there is no keytab. */
  readonly fetch: (() => Promise<IssuedTokens>) | null;
  /** Passes new tokens to the running executors. */
  readonly handOver: (credentials: Credentials) => void;
  /** Sends a small request to HDFS with the current tokens. */
  readonly probe: () => Promise<unknown>;
  /** URI of the job's checkpoint folder, for use in messages. */
  readonly checkpointDir: string;
  readonly hear: (event: UntimedEvent) => void;
  readonly log: Logger;
}

/**
 * Maximum pause in ms between two checks. A Node.js timer fires immediately if its delay exceeds 24.8 days, and too late if the machine has
 * been suspended.
 */
const LONGEST_PAUSE_MS = 60_000;
/** How long after the tokens expire, in ms, to send the request that tests whether HDFS still accepts them. */
const AFTER_END_MS = 1_000;
const SHORTEST_PAUSE_MS = 1_000;

/**
 * Keeps a job's delegation tokens valid. With a keytab, replaces the tokens when the attempt starts, and whenever three quarters of their
 * lifetime has passed. If tokens cannot be replaced, announces in advance that they will expire. Without a keytab, ends the job after the
 * tokens have expired.
 */
export class TokenKeeper {
  readonly #options: TokenKeeperOptions;
  readonly #closing = new AbortController();
  #credentials: Credentials;
  readonly #submitted: TokenLifetime | null;
  #lifetime: TokenLifetime | null;
  /** Time at which the tokens will next be replaced. Infinite without a keytab. */
  #replaceAt: number;
  /** Reason why the last attempt to replace the tokens failed, or null if it succeeded. */
  #failure: string | null = null;
  #isAnnounced = false;
  #firstAttempt: () => void = () => {};

  constructor(options: TokenKeeperOptions) {
    this.#options = options;
    this.#credentials = options.credentials;
    this.#submitted = lifetimeOf(options.credentials.tokens.map(({ token }) => token));
    this.#lifetime = this.#submitted;
    this.#replaceAt = options.fetch === null ? Number.POSITIVE_INFINITY : 0;
  }

  /**
   * The credentials for a new container. As long as the tokens with which the job was submitted are valid, they are preferred: a
   * NodeManager aggregates logs with the tokens in the job's first container on the node, and cannot receive newer tokens later. The
   * executor itself receives the newest tokens when it connects.
   */
  get launchCredentials(): Credentials {
    const { credentials } = this.#options;
    return this.#submitted !== null && Date.now() < replacedAt(this.#submitted) ? credentials : this.#credentials;
  }

  /** Starts the keeper. With a keytab, resolves after the first attempt to replace the tokens, whether or not it succeeds. */
  async start(): Promise<void> {
    const attempted = new Promise<void>((resolve) => {
      this.#firstAttempt = resolve;
    });
    void this.#run();
    await (this.#options.fetch === null ? undefined : attempted);
  }

  close(): void {
    this.#closing.abort();
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted && this.#lifetime !== null) {
      const { fetch } = this.#options;
      if (fetch !== null && Date.now() >= this.#replaceAt) {
        await this.#replace(fetch, this.#lifetime);
        this.#firstAttempt();
      } else if (!this.#isAnnounced && Date.now() >= announcedAt(this.#lifetime)) {
        this.#announce(this.#lifetime);
      } else if (fetch === null && Date.now() >= this.#lifetime.endsAt + AFTER_END_MS && (await this.#isRejected())) {
        this.#end(this.#lifetime);
        return;
      }
      await pause(this.#pauseMs(this.#lifetime), signal);
    }
    this.#firstAttempt();
  }

  #pauseMs(lifetime: TokenLifetime): number {
    const afterwards = this.#options.fetch === null ? lifetime.endsAt + AFTER_END_MS : Number.POSITIVE_INFINITY;
    const next = Math.min(this.#replaceAt, this.#isAnnounced ? afterwards : announcedAt(lifetime));
    return Math.min(LONGEST_PAUSE_MS, Math.max(SHORTEST_PAUSE_MS, next - Date.now()));
  }

  async #replace(fetch: () => Promise<IssuedTokens>, before: TokenLifetime): Promise<void> {
    const { file, handOver, hear, log } = this.#options;
    try {
      const issuedAt = Date.now();
      const { tokens, endsAt } = await fetch();
      this.#credentials = withTokens(this.#credentials, tokens);
      await writeCredentials(file, this.#credentials);
      handOver(this.#credentials);
      this.#lifetime = { issuedAt, endsAt };
      this.#replaceAt = replacedAt(this.#lifetime);
      this.#failure = null;
      this.#isAnnounced = false;
      const detail = `valid until ${timeText(endsAt)}; the next replacement is at ${timeText(this.#replaceAt)}`;
      hear({ type: 'tokens', event: 'tokens-replaced', detail, notice: null });
    } catch (error) {
      const hint = error instanceof TonyError ? ` ${error.hint}` : '';
      log.warn({ error: messageOf(error) }, 'could not replace the delegation tokens; trying again');
      this.#replaceAt = Date.now() + retryPauseMs(before, Date.now());
      if (this.#failure === null) {
        this.#failure = messageOf(error);
        const notice = `The ApplicationMaster cannot replace the delegation tokens, which expire at ${timeText(before.endsAt)}, and tries again: ${this.#failure}${hint}`;
        hear({ type: 'tokens', event: 'tokens-failed', detail: notice, notice });
      }
    }
  }

  #announce({ endsAt }: TokenLifetime): void {
    const { checkpointDir, hear } = this.#options;
    this.#isAnnounced = true;
    const cause = this.#failure === null ? '' : ` They could not be replaced: ${this.#failure}`;
    const text = `The delegation tokens expire at ${timeText(endsAt)}. After that, the job cannot use HDFS.${cause} ${nextStep(checkpointDir)}`;
    hear({ type: 'tokens', event: 'tokens-ending', detail: text, notice: text });
  }

  /** Returns true if HDFS rejects the tokens. An HDFS outage does not count as a rejection. */
  async #isRejected(): Promise<boolean> {
    try {
      await this.#options.probe();
      return false;
    } catch (error) {
      return error instanceof TonyError && error.code === 'TOKEN_EXPIRED';
    }
  }

  #end({ endsAt }: TokenLifetime): void {
    const { checkpointDir, hear } = this.#options;
    const ended = `The job's delegation tokens expired at ${timeText(endsAt)}, so it cannot use HDFS any more.`;
    hear({ type: 'tokens-ended', reason: `${ended} ${nextStep(checkpointDir)}` });
  }
}

function nextStep(checkpointDir: string): string {
  return `Submit it again with --set checkpoint.dir=${checkpointDir} to continue from its newest checkpoint. With kerberos.keytab in job.yaml, a job replaces its tokens and can run longer.`;
}

/** Adds the newly issued tokens, and removes older tokens that have the same kind and service. */
function withTokens({ tokens, secrets }: Credentials, issued: readonly Token[]): Credentials {
  const isReplaced = ({ kind, service }: Token): boolean => issued.some((each) => each.kind === kind && each.service === service);
  return {
    tokens: [...tokens.filter(({ token }) => !isReplaced(token)), ...issued.map((token) => ({ alias: token.service, token }))],
    secrets,
  };
}

function timeText(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19)}Z`;
}
