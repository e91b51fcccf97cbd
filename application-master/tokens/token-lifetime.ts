import type { Token } from '../../hadoop/rpc/credentials.ts';
import { decodeDelegationIdentifier } from '../../hadoop/security/delegation-identifier.ts';
import { isFileSystemToken, KEY_SERVER_TOKEN_KIND } from '../../hadoop/security/fetch-tokens.ts';

/** The time in which a job's tokens are valid, in ms since the epoch. */
export interface TokenLifetime {
  readonly issuedAt: number;
  readonly endsAt: number;
}

const DAY_MS = 86_400_000;
/** The part of their lifetime after which tokens are replaced. The rest is for further attempts. */
const REPLACED_AFTER = 3 / 4;
/** Pauses between attempts to replace tokens (ms): a part of the time that is left, within these limits. */
const RETRY = { part: 1 / 20, leastMs: 2_000, mostMs: 60_000 };

/**
 * Returns the lifetime of the token that ends first, among those that the ResourceManager renews up to their maximum lifetime. Returns null
 * without such tokens. The identifiers of the ResourceManager's own tokens have another format; the ApplicationMaster can do without them.
 */
export function lifetimeOf(tokens: readonly Token[]): TokenLifetime | null {
  const renewed = tokens.filter((token) => isFileSystemToken(token) || token.kind === KEY_SERVER_TOKEN_KIND);
  const [first, ...others] = renewed.map(({ identifier }) => decodeDelegationIdentifier(identifier));
  return first === undefined ? null : others.reduce((least, each) => (each.endsAt < least.endsAt ? each : least), first);
}

/** Returns the time from which the end is announced: a day before, or the last seventh of a lifetime of less than a week. */
export function announcedAt({ issuedAt, endsAt }: TokenLifetime): number {
  return endsAt - Math.min(DAY_MS, (endsAt - issuedAt) / 7);
}

/** Returns the time at which to replace tokens that have just been issued. */
export function replacedAt({ issuedAt, endsAt }: TokenLifetime): number {
  return issuedAt + REPLACED_AFTER * (endsAt - issuedAt);
}

/** Returns the pause (ms) after a failed attempt to replace tokens. */
export function retryPauseMs({ endsAt }: TokenLifetime, now: number): number {
  return Math.min(RETRY.mostMs, Math.max(RETRY.leastMs, (endsAt - now) * RETRY.part));
}
