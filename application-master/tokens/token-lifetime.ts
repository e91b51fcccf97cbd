import type { Token } from '../../hadoop/rpc/credentials.ts';
import { decodeDelegationIdentifier } from '../../hadoop/security/delegation-identifier.ts';
import { isFileSystemToken, KEY_SERVER_TOKEN_KIND } from '../../hadoop/security/fetch-tokens.ts';

/** The period during which a job's tokens are valid. Both times are in ms since the epoch. */
export interface TokenLifetime {
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
