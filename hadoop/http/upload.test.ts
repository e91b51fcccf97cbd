import fc from 'fast-check';
import { expect, test } from 'vitest';
import { regroup } from './upload.ts';

test('regroups chunks into pieces of one size, in order', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.uint8Array({ maxLength: 40 })), fc.integer({ min: 1, max: 50 }), async (chunks, pieceBytes) => {
      async function* source(): AsyncIterable<Uint8Array> {
        yield* chunks;
      }
      const pieces: Buffer[] = [];
      let last: Uint8Array | null = null;
      let lastCopy = Buffer.alloc(0);
      for await (const piece of regroup(source(), pieceBytes)) {
        if (last !== null) {
          expect(Buffer.from(last)).toEqual(lastCopy);
        }
        last = piece;
        lastCopy = Buffer.from(piece);
        pieces.push(lastCopy);
      }
      expect(Buffer.concat(pieces)).toEqual(Buffer.concat(chunks));
      expect(pieces.slice(0, -1).every((piece) => piece.length === pieceBytes)).toBe(true);
      expect(pieces.every((piece) => piece.length > 0)).toBe(true);
    }),
  );
});
