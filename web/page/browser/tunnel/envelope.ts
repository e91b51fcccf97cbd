import { token } from './site.ts';

export type Header = readonly [name: string, value: string];

export interface Envelope {
  readonly head: string;
  readonly body: string;
}

function base64Url(bytes: Uint8Array): string {
  let letters = '';
  // Converts the bytes in chunks, because a function call can take only a limited number of arguments.
  for (let at = 0; at < bytes.length; at += 0x8000) {
    letters += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  }
  return btoa(letters).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

export function utf8(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

export function envelopeOf(method: string, path: string, headers: readonly Header[], body: Uint8Array): Envelope {
  return { head: base64Url(utf8(JSON.stringify({ m: method, u: path, h: headers }))), body: base64Url(body) };
}

export function sealed({ head, body }: Envelope): string {
  return `${token}.${head}.${body}`;
}

export function randomName(): string {
  return base64Url(crypto.getRandomValues(new Uint8Array(12)));
}
