import { X509Certificate } from 'node:crypto';

const BLOCK = /-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----[^-]*-----END (?:TRUSTED |X509 )?CERTIFICATE-----/g;

export function toPem(der: Uint8Array, label = 'CERTIFICATE'): string {
  const lines =
    Buffer.from(der)
      .toString('base64')
      .match(/.{1,64}/g) ?? [];
  return `-----BEGIN ${label}-----\n${lines.join('\n')}\n-----END ${label}-----\n`;
}

/**
 * Extracts the PEM certificates from a text.
 * @throws Error if the text does not contain a certificate, or contains a damaged one
 */
export function certificatesIn(text: string): string {
  const blocks = text.match(BLOCK) ?? [];
  if (blocks.length === 0) {
    throw new Error('it contains no certificate');
  }
  return blocks.map((block) => toPem(new X509Certificate(block).raw)).join('');
}
