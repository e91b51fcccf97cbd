import { createHash, randomBytes } from 'node:crypto';
import { lookup, lookupService } from 'node:dns/promises';
import { rename, rm } from 'node:fs/promises';
import { homedir, hostname } from 'node:os';
import { join } from 'node:path';
import { TonyError } from '../../platform/errors.ts';
import { makeFolders } from '../../platform/files/make-folders.ts';
import { kerberosFailure } from './kerberos-failure.ts';
import { runSystemProgram } from './run-system-program.ts';

export interface Ticket {
  readonly principal: string;
  /** Expiry in ms since the epoch. */
  readonly expiresAt: number;
  /** The ticket cache, e.g. `FILE:/tmp/krb5cc_1000`. */
  readonly cache: string;
}

/** A ticket from a keytab is replaced if its remaining lifetime, in ms, is shorter than this. */
const RENEW_BEFORE_MS = 5 * 60_000;

/**
 * Returns the user's ticket. The ticket comes from the keytab that TONY_KEYTAB names or, without TONY_KEYTAB, from the `kinit` ticket
 * cache.
 * @throws TonyError KERBEROS_TICKET_NOT_FOUND, KERBEROS_TICKET_EXPIRED, KERBEROS_TOOL_NOT_FOUND, KERBEROS_*
 */
export async function findTicket(environment: NodeJS.ProcessEnv, now: number = Date.now()): Promise<Ticket> {
  const ticket = environment.TONY_KEYTAB ? await ticketOfKeytab(environment, now) : await listTicket(environment);
  if (ticket.expiresAt <= now) {
    throw new TonyError(
      'KERBEROS_TICKET_EXPIRED',
      `The Kerberos ticket of ${ticket.principal} expired at ${new Date(ticket.expiresAt).toISOString()}.`,
    );
  }
  return ticket;
}

/** Returns an environment in which Kerberos programs find the ticket. */
export async function ticketEnvironment(environment: NodeJS.ProcessEnv): Promise<NodeJS.ProcessEnv> {
  const { cache } = await findTicket(environment);
  return { ...environment, KRB5CCNAME: cache };
}

async function ticketOfKeytab(environment: NodeJS.ProcessEnv, now: number): Promise<Ticket> {
  const { TONY_KEYTAB: keytab = '', TONY_PRINCIPAL: named = '' } = environment;
  const principal = await withHost(named);
  if (principal === '') {
    throw new TonyError(
      'KERBEROS_TICKET_NOT_FOUND',
      `TONY_KEYTAB names ${keytab}, but TONY_PRINCIPAL does not name the principal to use.`,
      {
        hint: `Set TONY_PRINCIPAL to a principal of the keytab: klist -k ${keytab}.`,
      },
    );
  }
  const cache = await ownCache(environment, principal, keytab);
  const withCache = { ...environment, KRB5CCNAME: cache };
  const known = await listTicket(withCache).catch(() => null);
  if (known !== null && known.expiresAt - now > RENEW_BEFORE_MS) {
    return known;
  }
  // kinit writes a temporary file that then replaces the cache, so that concurrent commands never read an incomplete cache.
  const file = cache.slice('FILE:'.length);
  const unfinished = `${file}.${randomBytes(8).toString('hex')}`;
  try {
    const { exitCode, stderr } = await runSystemProgram('kinit', ['-k', '-t', keytab, '-c', `FILE:${unfinished}`, principal], environment);
    if (exitCode !== 0) {
      throw kerberosFailure(stderr.trim(), `${principal} with the keytab ${keytab}`);
    }
    await rename(unfinished, file);
  } finally {
    await rm(unfinished, { force: true });
  }
  return listTicket(withCache);
}

/** Replaces `_HOST` in a principal with this machine's canonical name, as Hadoop's daemons do. */
async function withHost(principal: string): Promise<string> {
  const pattern = /\/_HOST(?=@|$)/;
  if (!pattern.test(principal)) {
    return principal;
  }
  const own = hostname();
  const name = await lookup(own)
    .then(({ address }) => lookupService(address, 0))
    .then(
      (found) => found.hostname,
      () => own,
    );
  return principal.replace(pattern, `/${name.toLowerCase()}`);
}

/** Returns a ticket cache that only the user can read. It is separate from the user's own ticket cache, which must not change. */
async function ownCache(environment: NodeJS.ProcessEnv, principal: string, keytab: string): Promise<string> {
  const folder = join(environment.XDG_CACHE_HOME || join(environment.HOME || homedir(), '.cache'), 'tony-ts', 'tickets');
  await makeFolders(folder, 0o700);
  const name = createHash('sha256').update(`${principal}\0${keytab}`).digest('hex').slice(0, 16);
  return `FILE:${join(folder, name)}`;
}

async function listTicket(environment: NodeJS.ProcessEnv): Promise<Ticket> {
  const { exitCode, stdout, stderr } = await runSystemProgram('klist', [], environment);
  if (exitCode !== 0) {
    throw new TonyError('KERBEROS_TICKET_NOT_FOUND', `No Kerberos ticket was found: ${stderr.trim().replace(/^klist: /, '')}.`);
  }
  return parseTickets(stdout);
}

/**
 * Parses the output of MIT Kerberos's `klist` in the C locale and in UTC:
 *
 *   Ticket cache: FILE:/tmp/krb5cc_1000
 *   Default principal: alice@EXAMPLE.COM
 *
 *   Valid starting     Expires            Service principal
 *   11/24/26 04:05:15  11/25/26 04:05:15  krbtgt/EXAMPLE.COM@EXAMPLE.COM
 *
 * @throws TonyError KERBEROS_TICKET_NOT_FOUND
 */
export function parseTickets(text: string): Ticket {
  const cache = /^Ticket cache: (.+)$/m.exec(text)?.[1]?.trim();
  const principal = /^Default principal: (.+)$/m.exec(text)?.[1]?.trim();
  const realm = principal?.slice(principal.lastIndexOf('@') + 1);
  const expirations = [...text.matchAll(/^ *\S+ \S+ {2}(\d\d)\/(\d\d)\/(\d\d) (\d\d):(\d\d):(\d\d) {2}(\S+)$/gm)]
    .filter(([line]) => line.trim().endsWith(`krbtgt/${realm}@${realm}`))
    .map(([, month, day, year, hours, minutes, seconds]) =>
      Date.UTC(2000 + Number(year), Number(month) - 1, Number(day), Number(hours), Number(minutes), Number(seconds)),
    );
  if (cache === undefined || principal === undefined || expirations.length === 0) {
    throw new TonyError(
      'KERBEROS_TICKET_NOT_FOUND',
      `The cache ${cache ?? ''} has no ticket-granting ticket for ${principal ?? 'a user'}.`,
    );
  }
  return { principal, expiresAt: Math.max(...expirations), cache };
}
