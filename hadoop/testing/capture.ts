import { Buffer } from 'node:buffer';
import { readFileSync } from 'node:fs';

/** One line of a recording in golden/. A real daemon, or a client of that daemon, sent the bytes. */
export interface Captured {
  readonly from: 'client' | 'server';
  /** True if these bytes are the decrypted content of the protected message on the line before or after this one. */
  readonly inside: boolean;
  readonly bytes: Buffer;
  readonly comment: string;
}

export function capture(name: string): Captured[] {
  return golden(name)
    .toString()
    .split('\n')
    .filter((line) => /^[CScs] /.test(line))
    .map((line) => {
      const [side = '', hex = '', ...comment] = line.split(/\s+/);
      return {
        from: side.toUpperCase() === 'C' ? 'client' : 'server',
        inside: side === side.toLowerCase(),
        bytes: Buffer.from(hex, 'hex'),
        comment: comment.join(' '),
      };
    });
}

export function golden(name: string): Buffer {
  return readFileSync(new URL(`../golden/${name}`, import.meta.url));
}

export interface CapturedDigest {
  readonly identifier: string;
  readonly password: string;
  readonly username: string;
  readonly passwordText: string;
  readonly challenge: string;
  readonly digestUri: string;
  readonly cnonce: string;
  readonly qop: 'auth' | 'auth-int' | 'auth-conf';
  readonly cipher?: '3des' | 'rc4';
  readonly HA1raw: string;
  readonly clientResponse: string;
  readonly serverFinal: string;
  readonly kic?: string;
  readonly kis?: string;
}

/** Parameters of the recorded DIGEST-MD5 exchanges, keyed by recording name. */
export const capturedDigests = JSON.parse(golden('digest-md5.json').toString()) as Record<string, CapturedDigest>;
