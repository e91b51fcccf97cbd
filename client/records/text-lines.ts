import type { Readable } from 'node:stream';

const NEWLINE = 0x0a;

/**
 * Yields the lines of a stream without their newlines. The last line may lack a newline. Skips empty lines. Also skips lines longer than
 * `longest` bytes, without keeping them in memory.
 */
export async function* linesOf(stream: Readable, longest: number): AsyncGenerator<string> {
  let held: Buffer[] = [];
  let heldBytes = 0;
  let isTooLong = false;
  const take = (part: Buffer): void => {
    isTooLong ||= heldBytes + part.length > longest;
    if (isTooLong) {
      held = [];
      heldBytes = 0;
    } else if (part.length > 0) {
      held.push(part);
      heldBytes += part.length;
    }
  };
  const line = (): string | null => {
    const text = isTooLong || heldBytes === 0 ? null : Buffer.concat(held, heldBytes).toString('utf8');
    held = [];
    heldBytes = 0;
    isTooLong = false;
    return text;
  };
  for await (const piece of stream as AsyncIterable<Buffer>) {
    let from = 0;
    for (let at = piece.indexOf(NEWLINE); at >= 0; at = piece.indexOf(NEWLINE, from)) {
      take(piece.subarray(from, at));
      from = at + 1;
      const text = line();
      if (text !== null) {
        yield text;
      }
    }
    take(piece.subarray(from));
  }
  const last = line();
  if (last !== null) {
    yield last;
  }
}
