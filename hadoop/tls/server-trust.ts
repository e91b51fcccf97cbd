import { readFileSync } from 'node:fs';
import { Agent, type AgentOptions } from 'node:https';
import tls, { createSecureContext, rootCertificates, type SecureContext } from 'node:tls';

/** Cached by certificate authorities: a secure context with all root certificates takes milliseconds and a megabyte of memory. */
const known = new Map<string, ServerTrust>();

/**
 * Defines which HTTPS servers this process trusts. All HTTPS connections to a cluster use its agent. A server's certificate must be signed
 * by one of Node's default authorities or by one of the cluster's authorities. Host names are always verified.
 */
export class ServerTrust {
  /** The cluster's certificate authorities; empty if only Node's default authorities are trusted. */
  readonly pem: string;
  #context: SecureContext | null = null;

  private constructor(pem: string) {
    this.pem = pem;
  }

  /** @param pem additional certificate authorities in PEM format */
  static of(pem: string): ServerTrust {
    let trust = known.get(pem);
    if (trust === undefined) {
      trust = new ServerTrust(pem);
      known.set(pem, trust);
    }
    return trust;
  }

  agent(options: AgentOptions = {}): Agent {
    return new Agent({ keepAlive: true, ...options, ...this.connectionOptions() });
  }

  /** Returns the options of `tls.connect` that make a connection trust these authorities. */
  connectionOptions(): { readonly secureContext?: SecureContext } {
    if (this.pem === '') {
      return {};
    }
    this.#context ??= createSecureContext({ ca: [...defaultAuthorities(), this.pem] });
    return { secureContext: this.#context };
  }

  /**
   * Returns all trusted authorities in PEM format, for programs that read them from a file. Returns null if the system already trusts all
   * of them.
   */
  bundle(): string | null {
    return this.pem === '' ? null : [...defaultAuthorities(), this.pem].join('\n');
  }
}

export const DEFAULT_TRUST = ServerTrust.of('');

/**
 * Returns the distinct certificates in `pem` that Node.js does not already trust. Java truststores often contain all public authorities.
 */
export function additionalAuthorities(pem: string): string {
  const own = new Set(rootCertificates.map((each) => each.trim()));
  const given = pem.split(/(?<=-----END CERTIFICATE-----)\s*/).map((each) => each.trim());
  return [...new Set(given)].filter((each) => each !== '' && !own.has(each)).join('\n');
}

/**
 * Returns Node's default authorities. TLS options with explicit authorities must include them, because the option `ca` replaces the
 * defaults.
 */
function defaultAuthorities(): readonly string[] {
  // Available in Node.js 22.15 and newer.
  const { getCACertificates } = tls as { readonly getCACertificates?: (type: 'default') => string[] };
  if (getCACertificates !== undefined) {
    return getCACertificates('default');
  }
  const extra = process.env.NODE_EXTRA_CA_CERTS;
  try {
    return extra ? [...rootCertificates, readFileSync(extra, 'latin1')] : rootCertificates;
  } catch {
    // Node.js itself warns about an unreadable file.
    return rootCertificates;
  }
}
