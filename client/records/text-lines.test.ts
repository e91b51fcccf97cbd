import { Readable } from 'node:stream';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { linesOf } from './job-record.ts';

async function all(pieces: readonly Buffer[], longest: number): Promise<string[]> {
  const lines: string[] = [];
  for await (const line of linesOf(Readable.from(pieces), longest)) {
    lines.push(line);
  }
  return lines;
}

test('linesOf yields complete lines, however the text is split into chunks, and skips empty and overlong lines', async () => {
  const line = fc.constantFrom('', 'a', 'é', '語🙂', 'x'.repeat(10), 'x'.repeat(11), 'é'.repeat(6));
  await fc.assert(
    fc.asyncProperty(fc.array(line), fc.boolean(), fc.integer({ min: 1, max: 30 }), async (lines, isEnded, size) => {
      const bytes = Buffer.from(lines.join('\n') + (isEnded ? '\n' : ''));
      const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) => bytes.subarray(at * size, (at + 1) * size));
      expect(await all(pieces, 10)).toEqual(lines.filter((each) => each !== '' && Buffer.byteLength(each) <= 10));
    }),
  );
});
