import { open } from 'node:fs/promises';

const MAX_LINES = 20;
const MAX_BYTES = 4096;

/**
 * Returns the last lines that were written to a file after offset `from`. Shortens paths to files in `folder` to relative paths. Returns an
 * empty string if there are no lines or the file cannot be read.
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
      return lastLines(buffer.subarray(0, bytesRead), start > from, folder);
    } finally {
      await handle.close();
    }
  } catch {
    return '';
  }
}

/** @param cut true if the bytes may begin in the middle of a line or character */
export function lastLines(bytes: Uint8Array, cut: boolean, folder: string): string {
  let text = Buffer.from(bytes).toString('utf8').trimEnd();
  if (cut) {
    const firstBreak = text.indexOf('\n');
    text = firstBreak >= 0 ? text.slice(firstBreak + 1) : text.replace(/^\uFFFD+/, '');
  }
  return shortened(text, folder).split('\n').slice(-MAX_LINES).join('\n');
}

/** Matches the folders above node_modules or the training library. Their long names do not help the user. */
const LIBRARY = String.raw`(?:file://)?/\S*?/(?=node_modules/|tony/training\.mjs)`;
/** Matches the line of a library's source code that Node.js prints above an uncaught error. */
const LIBRARY_SOURCE = new RegExp(String.raw`^${LIBRARY}\S+:\d+\n.*\n[ \t]*\^+\n+`, 'm');
const NODE_VERSION = /\n+Node\.js v[\d.]+$/;

function shortened(text: string, folder: string): string {
  return text
    .replace(LIBRARY_SOURCE, '')
    .replace(NODE_VERSION, '')
    .replaceAll(new RegExp(LIBRARY, 'g'), '')
    .replaceAll(`file://${folder}/`, '')
    .replaceAll(`${folder}/`, '');
}
