import { readFileSync } from 'node:fs';
import { Agent, type AgentOptions } from 'node:https';
import tls, { createSecureContext, rootCertificates, type SecureContext } from 'node:tls';

/** One object for each set of authorities: a secure context with all roots takes milliseconds and a megabyte. */
const known = new Map<string, ServerTrust>();

/**
 * Which HTTPS servers this process accepts: those with a certificate of Node's default authorities, or of the cluster's own. Everything
 * that opens HTTPS to a cluster takes its agent from here. Host names are always verified.
 */
export class ServerTrust {
  /** The cluster's own authorities; empty for the defaults alone. */
  readonly pem: string;
  #context: SecureContext | null = null;

  private constructor(pem: string) {
    this.pem = pem;
  }

  /** @param pem certificates of additional authorities */
  static of(pem: string): ServerTrust {
    let trust = known.get(pem);
    if (trust === undefined) {
      trust = new ServerTrust(pem);
      known.set(pem, trust);
    }
    return trust;
  }

  agent(options: AgentOptions = {}): Agent {
    if (this.pem === '') {
      return new Agent({ keepAlive: true, ...options });
    }
    this.#context ??= createSecureContext({ ca: [...defaultAuthorities(), this.pem] });
    return new Agent({ keepAlive: true, ...options, secureContext: this.#context });
  }

  /** All accepted authorities, for programs that take them from a file; null for the system's defaults. */
  bundle(): string | null {
    return this.pem === '' ? null : [...defaultAuthorities(), this.pem].join('\n');
  }
}

/** Accepts only Node's default authorities. */
export const DEFAULT_TRUST = ServerTrust.of('');

/** The certificates in `pem` that are not among Node's own, each once: Java's truststores often contain all public authorities as well. */
export function additionalAuthorities(pem: string): string {
  const own = new Set(rootCertificates.map((each) => each.trim()));
  const given = pem.split(/(?<=-----END CERTIFICATE-----)\s*/).map((each) => each.trim());
  return [...new Set(given)].filter((each) => each !== '' && !own.has(each)).join('\n');
}

/** Certificates that are given explicitly replace the defaults, so they must include them. */
function defaultAuthorities(): readonly string[] {
  // Node.js has this function since 22.15.
  const { getCACertificates } = tls as { readonly getCACertificates?: (type: 'default') => string[] };
  if (getCACertificates !== undefined) {
    return getCACertificates('default');
  }
  const extra = process.env.NODE_EXTRA_CA_CERTS;
  try {
    return extra ? [...rootCertificates, readFileSync(extra, 'latin1')] : rootCertificates;
  } catch {
    // Node.js itself prints a warning about this file.
    return rootCertificates;
  }
}
