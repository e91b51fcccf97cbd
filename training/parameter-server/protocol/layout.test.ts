import fc from 'fast-check';
import { expect, test } from 'vitest';
import { layOut, numbersOf } from './layout.ts';

const sizes = fc.array(fc.oneof(fc.integer({ min: 0, max: 300 }), fc.integer({ min: 0, max: 3_000_000 })), { minLength: 1, maxLength: 30 });

test('each number of each variable is on exactly one server', () => {
  fc.assert(
    fc.property(sizes, fc.integer({ min: 1, max: 9 }), fc.infiniteStream(fc.option(fc.nat())), (each, servers, wishes) => {
      const placed = each.map(() => {
        const wish = wishes.next().value as number | null;
        return wish === null ? null : wish % servers;
      });
      const layout = layOut(each, servers, placed);
      expect(layout).toHaveLength(servers);
      for (const [variable, size] of each.entries()) {
        const pieces = layout.flatMap((held, server) =>
          held.filter((piece) => piece.variable === variable).map((piece) => ({ ...piece, server })),
        );
        pieces.sort((a, b) => a.from - b.from || a.count - b.count);
        let at = 0;
        for (const piece of pieces) {
          expect(piece.from).toBe(at);
          at += piece.count;
        }
        expect(at).toBe(size);
        if (placed[variable] !== null) {
          expect(new Set(pieces.map(({ server }) => server))).toEqual(new Set([placed[variable]]));
        }
      }
    }),
  );
});

test('no server holds much more than its fair share', () => {
  fc.assert(
    fc.property(sizes, fc.integer({ min: 1, max: 9 }), (each, servers) => {
      const layout = layOut(each, servers, []);
      const fair = each.reduce((sum, size) => sum + size, 0) / servers;
      for (const held of layout) {
        expect(numbersOf(held)).toBeLessThanOrEqual(Math.ceil(fair + Math.max(16_384, fair / 4)) + 1);
      }
    }),
  );
});

test('a large layer is split over the servers, and a small model is not', () => {
  expect(layOut([400, 16, 12_800, 32, 5120, 10], 2, [])).toEqual([
    [{ variable: 2, from: 0, count: 12_800 }],
    [
      { variable: 0, from: 0, count: 400 },
      { variable: 1, from: 0, count: 16 },
      { variable: 3, from: 0, count: 32 },
      { variable: 4, from: 0, count: 5120 },
      { variable: 5, from: 0, count: 10 },
    ],
  ]);
  const large = layOut([1_000_000, 10], 2, []);
  expect(large.map(numbersOf)).toEqual([500_010, 500_000]);
});
