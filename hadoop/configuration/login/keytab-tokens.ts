import type { Token } from '../../rpc/credentials.ts';
import type { TokenSource } from '../../security/fetch-tokens.ts';
import { TicketLogin } from '../../security/ticket-login.ts';
import type { HadoopConfiguration } from '../configuration.ts';
import { servicesOf } from './login-of.ts';

export interface Keytab {
  readonly principal: string;
  /** Path of the keytab file. */
  readonly file: string;
  /** A folder for the ticket cache that only this user can read. */
  readonly cacheFolder: string;
}

export interface IssuedTokens {
  readonly tokens: readonly Token[];
  /** Earliest expiry among the tokens, in ms since the epoch. */
  readonly endsAt: number;
}

/** Obtains delegation tokens with a keytab, for a process without a Kerberos ticket. */
export class KeytabTokens {
  readonly #login: TicketLogin;

  /** @param user the principal's short name on the cluster */
  constructor(keytab: Keytab, configuration: HadoopConfiguration, user: string, environment: NodeJS.ProcessEnv = process.env) {
    // The principal itself renews the tokens, because the ResourceManager renews only the tokens that the client submitted with the job.
    this.#login = new TicketLogin(user, servicesOf(configuration, keytab.principal), ticketSource(keytab, environment));
  }

  /**
   * Requests new tokens for the file systems, the ResourceManager and the key servers.
   *
   * @throws TonyError KERBEROS_*, HDFS_UNREACHABLE, RM_UNREACHABLE, KMS_UNREACHABLE
   */
  async fetch(fileSystems: readonly string[]): Promise<IssuedTokens> {
    const issued = await Promise.all((await this.#login.tokenSources(fileSystems)).map(issue));
    return { tokens: issued.map(({ token }) => token), endsAt: Math.min(...issued.map(({ endsAt }) => endsAt)) };
  }
}

/** Requests a token and then renews it, because only a renewal response contains the expiry. */
async function issue(source: TokenSource): Promise<{ readonly token: Token; readonly endsAt: number }> {
  const token = await source.fetch();
  return { token, endsAt: await source.renew(token) };
}

/** Returns environment variables that make `findTicket` use the keytab and a separate ticket cache. */
export function ticketSource({ principal, file, cacheFolder }: Keytab, environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return { ...environment, TONY_PRINCIPAL: principal, TONY_KEYTAB: file, XDG_CACHE_HOME: cacheFolder };
}
