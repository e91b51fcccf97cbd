import { open } from 'node:fs/promises';

const MAX_LINES = 20;
const MAX_BYTES = 4096;

/**
 * Returns the last lines that were written to a file after offset `from`, with paths in `folder` relative to it. Returns an empty string if
 * there are none or the file is unreadable.
 */
export async function tailOf(file: string, from: number, folder: string): Promise<string> {
  try {
    const handle = await open(file, 'r');
    try {
      const { size } = await handle.stat();
      const start = Math.max(from, size - MAX_BYTES);
      if (start >= size) {
        return '';
      }
      const { buffer, bytesRead } = await handle.read({ buffer: Buffer.alloc(size - start), position: start });
      return lastLines(buffer.subarray(0, bytesRead), start > from).replaceAll(`${folder}/`, '');
    } finally {
      await handle.close();
    }
  } catch {
    return '';
  }
}

/** @param cut true if the bytes may start in the middle of a line or character */
export function lastLines(bytes: Uint8Array, cut: boolean): string {
  let text = Buffer.from(bytes).toString('utf8').trimEnd();
  if (cut) {
    const firstBreak = text.indexOf('\n');
    text = firstBreak >= 0 ? text.slice(firstBreak + 1) : text.replace(/^\uFFFD+/, '');
  }
  return text.split('\n').slice(-MAX_LINES).join('\n');
}
