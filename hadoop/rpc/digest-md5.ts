import { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';

/*
 * The client side of SASL DIGEST-MD5 (RFC 2831). It supports only the options that Hadoop uses: no authorization ID, one realm, md5-sess.
 *
 *   HA1      = MD5( MD5(user:realm:password) ":" nonce ":" cnonce )
 *   A2       = prefix ":" uri, followed by ":00000000000000000000000000000000" unless qop is auth
 *   response = hex MD5( hex(HA1) ":" nonce ":" nc ":" cnonce ":" qop ":" hex MD5(A2) )
 *
 * The prefix is AUTHENTICATE for the client's response and empty for the server's proof.
 */

export type Qop = 'auth' | 'auth-int' | 'auth-conf';
export type Cipher = '3des' | 'rc4';

export interface Challenge {
  readonly realm: string;
  readonly nonce: string;
  /** The offered protections that this client supports, in the server's order. */
  readonly qops: readonly Qop[];
  readonly ciphers: readonly Cipher[];
  /** Maximum length in bytes of a message that the server accepts. */
  readonly maxBuffer: number;
}

/** Maximum length of a challenge, according to RFC 2831, section 2.1.1. */
const MAX_CHALLENGE_BYTES = 2048;
/** All protections, from the weakest to the strongest. */
export const QOPS: readonly Qop[] = ['auth', 'auth-int', 'auth-conf'];
/** Ciphers in order of preference. Node.js implements 3des natively, but not rc4. */
const CIPHERS: readonly Cipher[] = ['3des', 'rc4'];

/** Parses a challenge. Throws an Error for a malformed or unsupported challenge. */
export function parseChallenge(bytes: Uint8Array): Challenge {
  if (bytes.length > MAX_CHALLENGE_BYTES) {
    throw new Error(`the challenge is longer than ${MAX_CHALLENGE_BYTES} bytes`);
  }
  const directives = parseDirectives(Buffer.from(bytes).toString('utf8'));
  const nonce = directives.get('nonce');
  if (nonce === undefined) {
    throw new Error('the challenge has no nonce');
  }
  const algorithm = directives.get('algorithm');
  if (algorithm !== 'md5-sess') {
    throw new Error(`the challenge requires the algorithm ${algorithm ?? '(none)'}`);
  }
  const maxBuffer = Number(directives.get('maxbuf') ?? 65_536);
  if (!Number.isInteger(maxBuffer) || maxBuffer < 64 || maxBuffer > 0xffffff) {
    throw new Error('the challenge has no valid maxbuf');
  }
  const offered = list(directives.get('cipher') ?? '');
  return {
    realm: directives.get('realm') ?? '',
    nonce,
    qops: list(directives.get('qop') ?? 'auth').flatMap((offered) => QOPS.filter((qop) => qop === offered)),
    ciphers: CIPHERS.filter((cipher) => offered.includes(cipher)),
    maxBuffer,
  };
}

export function isAtLeast(qop: Qop, minimum: Qop): boolean {
  return QOPS.indexOf(qop) >= QOPS.indexOf(minimum);
}

function list(text: string): string[] {
  return text.split(',').map((item) => item.trim());
}

/**
 * Parses comma-separated directives of the form `name=value` or `name="value"`. Quoted values can contain backslash escapes. Throws an
 * Error for duplicate names.
 */
export function parseDirectives(text: string): Map<string, string> {
  const directives = new Map<string, string>();
  const separators = /[\s,]*/y;
  const pattern = /([!#$%&'*+.^_`|~\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]*))\s*/sy;
  for (;;) {
    separators.lastIndex = pattern.lastIndex;
    separators.test(text);
    if (separators.lastIndex === text.length) {
      return directives;
    }
    pattern.lastIndex = separators.lastIndex;
    const match = pattern.exec(text);
    if (match === null || (pattern.lastIndex < text.length && text[pattern.lastIndex] !== ',')) {
      throw new Error('the list of directives is malformed');
    }
    const name = (match[1] ?? '').toLowerCase();
    if (directives.has(name)) {
      throw new Error(`the directive ${name} occurs twice`);
    }
    directives.set(name, match[2]?.replace(/\\(.)/gs, '$1') ?? match[3] ?? '');
  }
}

export interface DigestInput {
  readonly user: string;
  readonly password: string;
  readonly realm: string;
  readonly nonce: string;
  readonly cnonce: string;
  readonly uri: string;
  readonly qop: Qop;
}

/** Returns HA1 (16 bytes), the secret from which proofs and keys are derived. */
export function sessionKey(input: DigestInput): Buffer {
  return md5(md5(`${input.user}:${input.realm}:${input.password}`), `:${input.nonce}:${input.cnonce}`);
}

/** Returns the client's proof for the `AUTHENTICATE` prefix, or the server's proof for an empty prefix. */
export function digestProof(ha1: Buffer, input: DigestInput, prefix: 'AUTHENTICATE' | ''): string {
  const tail = input.qop === 'auth' ? '' : ':00000000000000000000000000000000';
  const a2 = md5(`${prefix}:${input.uri}${tail}`).toString('hex');
  return md5(`${ha1.toString('hex')}:${input.nonce}:00000001:${input.cnonce}:${input.qop}:${a2}`).toString('hex');
}

/** Formats the client's response. Directives have the same order and quoting as in Hadoop's Java client. */
export function digestResponse(ha1: Buffer, input: DigestInput, cipher: Cipher | null): string {
  const parts = [
    'charset=utf-8',
    `username=${quoted(input.user)}`,
    `realm=${quoted(input.realm)}`,
    `nonce=${quoted(input.nonce)}`,
    'nc=00000001',
    `cnonce=${quoted(input.cnonce)}`,
    `digest-uri=${quoted(input.uri)}`,
    'maxbuf=65536',
    `response=${digestProof(ha1, input, 'AUTHENTICATE')}`,
    `qop=${input.qop}`,
  ];
  if (cipher !== null) {
    parts.push(`cipher="${cipher}"`);
  }
  return parts.join(',');
}

function quoted(text: string): string {
  return `"${text.replace(/[\\"]/g, '\\$&')}"`;
}

function md5(...parts: (string | Uint8Array)[]): Buffer {
  const hash = createHash('md5');
  for (const part of parts) {
    hash.update(part);
  }
  return hash.digest();
}

export interface LayerKeys {
  readonly clientIntegrity: Buffer;
  readonly serverIntegrity: Buffer;
  readonly clientSealing: Buffer;
  readonly serverSealing: Buffer;
}

/** Derives the security layer's keys (RFC 2831, sections 2.3 and 2.4). Valid only for ciphers that use all 16 bytes of HA1. */
export function layerKeys(ha1: Buffer): LayerKeys {
  return {
    clientIntegrity: md5(ha1, 'Digest session key to client-to-server signing key magic constant'),
    serverIntegrity: md5(ha1, 'Digest session key to server-to-client signing key magic constant'),
    clientSealing: md5(ha1, 'Digest H(A1) to client-to-server sealing key magic constant'),
    serverSealing: md5(ha1, 'Digest H(A1) to server-to-client sealing key magic constant'),
  };
}
