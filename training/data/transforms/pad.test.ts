import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Column } from '../../../contract/encoding/idx.ts';
import { FileStorage } from '../../../storage/file-storage.ts';
import { fromArray } from '../sources/sources.ts';

const storage = new FileStorage();

describe('paddedBatch', () => {
  test('paddedBatch pads arrays to the longest in their batch, on either side', async () => {
    const dataset = fromArray([[1], [2, 3], [4, 5, 6]].map((xs, ys) => ({ xs, ys, text: `t${ys}` })));
    const batches = await dataset.paddedBatch(2).toArray({ storage });
    expect(batches.map(({ xs }) => [[...xs.values], xs.shape])).toEqual([
      [
        [1, 0, 2, 3],
        [2, 2],
      ],
      [
        [4, 5, 6],
        [1, 3],
      ],
    ]);
    expect(batches[0]).toMatchObject({ ys: { shape: [2] }, text: ['t0', 't1'] });
    const [start] = await dataset.paddedBatch(3, { side: 'start', value: -1, shapes: { xs: [4] } }).toArray({ storage });
    expect([...(start?.xs.values ?? [])]).toEqual([...[-1, -1, -1, 1], ...[-1, -1, 2, 3], ...[-1, 4, 5, 6]]);
    const typed = await fromArray([Int32Array.of(1), Int32Array.of(2, 3)])
      .paddedBatch(2)
      .toArray({ storage });
    expect(typed[0]).toEqual({ values: Int32Array.of(1, 0, 2, 3), shape: [2, 2] });
  });

  test('paddedBatch keeps each value at its position, for two axes', async () => {
    const shape = fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 2, maxLength: 2 });
    await fc.assert(
      fc.asyncProperty(
        fc.array(shape, { minLength: 1, maxLength: 5 }),
        fc.constantFrom<'start' | 'end'>('start', 'end'),
        async (shapes, side) => {
          const columns = shapes.map(([rows = 0, columns = 0]) => ({
            values: Float32Array.from({ length: rows * columns }, (_, index) => index + 1),
            shape: [rows, columns],
          }));
          const [batch] = await fromArray(columns).paddedBatch(shapes.length, { side }).toArray({ storage });
          const [count, rows, width] = (batch as Column).shape as readonly [number, number, number];
          expect([count, rows, width]).toEqual([
            shapes.length,
            Math.max(...shapes.map(([r = 0]) => r)),
            Math.max(...shapes.map(([, c = 0]) => c)),
          ]);
          for (const [index, { values, shape }] of columns.entries()) {
            const [r, c] = shape as [number, number];
            const [top, left] = side === 'start' ? [rows - r, width - c] : [0, 0];
            for (let row = 0; row < rows; row++) {
              for (let column = 0; column < width; column++) {
                const isOwn = row >= top && row < top + r && column >= left && column < left + c;
                expect(batch?.values[(index * rows + row) * width + column]).toBe(isOwn ? values[(row - top) * c + column - left] : 0);
              }
            }
          }
        },
      ),
    );
  });

  test('paddedBatch rejects a field that does not fit with an error that names it', async () => {
    const batch = (elements: readonly unknown[], shapes: Record<string, number[]> = {}) =>
      fromArray(elements).paddedBatch(10, { shapes }).toArray({ storage });
    await expect(batch([{ xs: [1, 2, 3] }], { xs: [2] })).rejects.toThrow(
      'field xs of element 1 of the dataset has the shape [3], which does not fit into [2]',
    );
    await expect(batch([{ xs: [1] }, { xs: [[1]] }])).rejects.toThrow(
      'field xs of element 2 of the dataset has 2 axes; in element 1, it has 1',
    );
    await expect(batch([{ xs: [1] }], { xs: [2, 2] })).rejects.toThrow('has 1 axes, but the shape [2,2] given for it has 2');
  });
});
