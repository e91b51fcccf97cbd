import * as tf from '@tensorflow/tfjs';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodeImage } from './image.ts';
import { claimedPixels } from './image-size.ts';

const bytes = (hex: string): Buffer => Buffer.from(hex.replaceAll(' ', ''), 'hex');
/** Files with one white pixel each, written by ImageMagick. The headers claim 513 x 258 pixels instead of 1 x 1. */
const PNG = bytes('89504e470d0a1a0a 0000000d 49484452 00000201 00000102 01 00 00 00 00 37 6e f9 24');
const BMP = bytes('424d 8e000000 0000 0000 8a000000 28000000 01020000 fefeffff 0100 1800');
const OLD_BMP = bytes('424d 1e000000 0000 0000 1a000000 0c000000 0102 0201 0100 1800');
const FRAME = '21f90400000000 00 2c 0000 0000 0102 0201 00 02 02 4401 00';
const GIF = bytes(`474946383961 0102 0201 80 00 00 ffffff 000000 ${FRAME} ${FRAME} 21fe0161 00 ${FRAME} 3b`);
const JPEG = bytes('ffd8 ffe0 0010 4a464946000101 0000480048 0000 ff ffdb 0004 0000 ffc4 0004 0000 ffc0 0011 08 0102 0201 03 01');

test.each([
  ['PNG', PNG, 513 * 258, 513 * 258],
  ['BMP with rows from top to bottom', BMP, 513 * 258, 513 * 258],
  ['BMP of OS/2', OLD_BMP, 513 * 258, 513 * 258],
  ['GIF of three frames', GIF, 513 * 258, 3 * 513 * 258],
  ['JPEG', JPEG, 513 * 258, 513 * 258],
  ['unknown format, which counts as 0 pixels', Buffer.from('<svg/>'), 0, 0],
])('claimedPixels returns the number of pixels that the header claims: %s', (_, file, first, all) => {
  expect([claimedPixels(file, false), claimedPixels(file, true)]).toEqual([first, all]);
});

test('claimedPixels returns a number for any bytes after the beginning of an image', () => {
  const beginning = fc.constantFrom(PNG.subarray(0, 8), BMP.subarray(0, 2), GIF.subarray(0, 6), JPEG.subarray(0, 2), JPEG, GIF);
  fc.assert(
    fc.property(beginning, fc.uint8Array({ maxLength: 300 }), fc.boolean(), (first, rest, allFrames) => {
      expect(claimedPixels(Buffer.concat([first, rest]), allFrames)).toBeGreaterThanOrEqual(0);
    }),
  );
});

test('an image that claims too many pixels is rejected before decoding', () => {
  const bomb = Buffer.from(PNG);
  bomb.writeUInt32BE(60_000, 16);
  bomb.writeUInt32BE(60_000, 20);
  const refuseToDecode = (): never => {
    throw new Error('decoded');
  };
  const native = { ...tf, node: { decodeImage: refuseToDecode } } as unknown as typeof tf;
  expect(() => decodeImage(native, bomb)).toThrow('3600000000 pixels');
  expect(() => decodeImage(native, bomb, { size: [8, 8] })).toThrow('3600000000 pixels');
  expect(() => decodeImage(native, PNG)).toThrow('decoded');
});
