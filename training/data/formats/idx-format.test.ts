import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import type { Column } from '../../../contract/encoding/idx.ts';
import { FileStorage } from '../../../storage/file-storage.ts';
import { idx } from '../sources/sources.ts';
import { folderWith } from '../testing/files.ts';

const storage = new FileStorage();

function idxFile(type: number, shape: readonly number[], values: Uint8Array): Buffer {
  const header = Buffer.alloc(4 + 4 * shape.length);
  header.set([0, 0, type, shape.length]);
  for (const [axis, size] of shape.entries()) {
    header.writeUInt32BE(size, 4 + 4 * axis);
  }
  return Buffer.concat([header, values]);
}

const images = idxFile(
  8,
  [5, 2, 3],
  Uint8Array.from({ length: 30 }, (_, index) => index),
);
const labels = idxFile(8, [5], Uint8Array.from([7, 2, 1, 0, 4]));

describe('IDX files', () => {
  test('IDX files yield numbers, columns, or pairs of the two', async () => {
    const folder = await folderWith({ images, labels, 'images.gz': gzipSync(images) });
    const all = await idx<Column>(`${folder}/images`).toArray({ storage });
    expect(all.map(({ values, shape }) => [[...values], shape])).toEqual(
      [0, 6, 12, 18, 24].map((first) => [Array.from({ length: 6 }, (_, index) => first + index), [2, 3]]),
    );
    expect(await idx(`${folder}/labels`).toArray({ storage })).toEqual([7, 2, 1, 0, 4]);
    const pairs = idx<{ image: Column; label: number }>({ image: `${folder}/images.gz`, label: `${folder}/labels` });
    const [batch] = await pairs.batch(5).toArray({ storage });
    expect(batch?.image.shape).toEqual([5, 2, 3]);
    expect([...(batch?.label.values ?? [])]).toEqual([7, 2, 1, 0, 4]);
  });

  test('IDX files are split so that images and labels stay paired', async () => {
    const folder = await folderWith({ images, labels });
    const pairs = idx<{ image: Column; label: number }>({ image: `${folder}/images`, label: `${folder}/labels` }, { splitBytes: 7 });
    const shares = await Promise.all([0, 1].map((index) => pairs.toArray({ storage, share: { index, count: 2 } })));
    for (const share of shares) {
      expect(share.length).toBeGreaterThan(0);
    }
    expect(shares.flat().map(({ image, label }) => [image.values[0], label])).toEqual(
      expect.arrayContaining([
        [0, 7],
        [6, 2],
        [12, 1],
        [18, 0],
        [24, 4],
      ]),
    );
    expect(shares.flat()).toHaveLength(5);
  });

  test('IDX files may contain every type of number', async () => {
    const bytes = (size: number, write: (buffer: Buffer, value: number, at: number) => void) => {
      const buffer = Buffer.alloc(2 * size);
      for (const [index, value] of [-3, 100].entries()) {
        write(buffer, value, index * size);
      }
      return buffer;
    };
    const folder = await folderWith({
      int8: idxFile(9, [2], Uint8Array.from([0xfd, 100])),
      int16: idxFile(
        11,
        [2],
        bytes(2, (buffer, value, at) => buffer.writeInt16BE(value, at)),
      ),
      int32: idxFile(
        12,
        [2],
        bytes(4, (buffer, value, at) => buffer.writeInt32BE(value, at)),
      ),
      float: idxFile(
        13,
        [2],
        bytes(4, (buffer, value, at) => buffer.writeFloatBE(value, at)),
      ),
      double: idxFile(
        14,
        [2],
        bytes(8, (buffer, value, at) => buffer.writeDoubleBE(value, at)),
      ),
    });
    for (const name of ['int8', 'int16', 'int32', 'float', 'double']) {
      expect(await idx(`${folder}/${name}`).toArray({ storage })).toEqual([-3, 100]);
    }
  });

  test.each([
    ['is not an IDX file', { images: Buffer.from('something else') }],
    ['ends within its header', { images: images.subarray(0, 10) }],
    ['requires', { images: images.subarray(0, 30) }],
    ['ends within record 3', { 'images.gz': gzipSync(images.subarray(0, 39)) }],
    ['without values', { images: idxFile(8, [5, 0], Buffer.alloc(0)) }],
    ['without values', { 'images.gz': gzipSync(idxFile(8, [5, 0, ...new Array(40).fill(0xffffffff)], Buffer.alloc(100))) }],
    ['the maximum is', { images: idxFile(8, [0, 65_536, 65_536], Buffer.alloc(0)) }],
    ['has 5 records, but', { images, labels: labels.subarray(0, 8) }],
  ])('IDX files are rejected if they are invalid: %s', async (message, files: Record<string, Buffer>) => {
    const folder = await folderWith('labels' in files ? { images, labels: idxFile(8, [4], Buffer.from([1, 2, 3, 4])) } : files);
    const dataset = 'labels' in files ? idx({ image: `${folder}/images`, label: `${folder}/labels` }) : idx(folder);
    await expect(dataset.toArray({ storage })).rejects.toMatchObject({ code: 'DATA_INVALID', message: expect.stringContaining(message) });
  });

  test('IDX files are rejected if two columns have different numbers of files', async () => {
    const folder = await folderWith({ 'images-1': images, 'images-2': images, labels });
    const pairs = idx({ image: `${folder}/images-*`, label: `${folder}/labels` });
    await expect(pairs.toArray({ storage })).rejects.toThrow(/different numbers of files: .*images-1 and 1 more, but .*labels$/);
  });
});
