import { readFileSync } from 'node:fs';
import { Agent, type AgentOptions } from 'node:https';
import tls, { createSecureContext, rootCertificates, type SecureContext } from 'node:tls';

/**
 * All instances, keyed by their authorities. They are shared because a secure context with all root certificates takes milliseconds to
 * create and occupies a megabyte of memory.
 */
const known = new Map<string, ServerTrust>();

/**
 * The HTTPS servers that this process trusts. A server's certificate must be signed by one of Node's default authorities or by one of the
 * cluster's authorities. Host names are always verified.
 */
export class ServerTrust {
  /** The cluster's certificate authorities in PEM format. Empty if only Node's default authorities are trusted. */
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

  /** Returns options for `tls.connect`, so that the connection trusts these authorities. */
  connectionOptions(): { readonly secureContext?: SecureContext } {
    if (this.pem === '') {
      return {};
    }
    this.#context ??= createSecureContext({ ca: [...defaultAuthorities(), this.pem] });
    return { secureContext: this.#context };
  }

  /**
   * Returns all trusted authorities in PEM format, for programs that read authorities from a file. Returns null if the default authorities
   * are sufficient.
   */
  bundle(): string | null {
    return this.pem === '' ? null : [...defaultAuthorities(), this.pem].join('\n');
  }
}

export const DEFAULT_TRUST = ServerTrust.of('');

/**
 * Returns the certificates in `pem`, without duplicates and without those that Node.js trusts by default. Java truststores often contain
 * all public authorities.
 */
export function additionalAuthorities(pem: string): string {
  const own = new Set(rootCertificates.map((each) => each.trim()));
  const given = pem.split(/(?<=-----END CERTIFICATE-----)\s*/).map((each) => each.trim());
  return [...new Set(given)].filter((each) => each !== '' && !own.has(each)).join('\n');
}

/** Returns Node's default authorities, which must be passed explicitly because the TLS option `ca` replaces them. */
function defaultAuthorities(): readonly string[] {
  // Only Node.js 22.15 and newer have this function.
  const { getCACertificates } = tls as { readonly getCACertificates?: (type: 'default') => string[] };
  if (getCACertificates !== undefined) {
    return getCACertificates('default');
  }
  const extra = process.env.NODE_EXTRA_CA_CERTS;
  try {
    return extra ? [...rootCertificates, readFileSync(extra, 'latin1')] : rootCertificates;
  } catch {
    // Node.js itself prints a warning about the unreadable file.
    return rootCertificates;
  }
}
