import { isUtf8 } from 'node:buffer';

const REPLACEMENT = '\ufffd';

/**
 * Decodes UTF-8. Does not remove a byte order mark.
 * @throws Error that names the first byte that is not UTF-8.
 */
export function decodeUtf8(bytes: Uint8Array): string {
  const buffer = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const text = buffer.toString('utf8');
  // `toString` writes a replacement character for invalid bytes. Valid text rarely contains one, so most values need no second look.
  if (text.includes(REPLACEMENT) && !isUtf8(buffer)) {
    const encoded = Buffer.from(text);
    const at = buffer.findIndex((byte, index) => byte !== encoded[index]);
    throw new Error(`the text is not UTF-8: its byte ${at} is 0x${buffer[at]?.toString(16).padStart(2, '0')}`);
  }
  return text;
}
