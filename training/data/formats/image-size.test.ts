import * as tf from '@tensorflow/tfjs';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { claimedPixels, decodeImage, misreadBmp } from './image.ts';

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

test('a GIF is rejected if a frame claims more pixels than the canvas, and if it is to have other than three channels', () => {
  const native = { ...tf, node: { decodeImage: () => tf.zeros([1, 1, 3], 'int32') } } as unknown as typeof tf;
  const bomb = Buffer.from(GIF);
  const frame = bomb.indexOf(Buffer.from('2c00000000', 'hex'));
  bomb.writeUInt16LE(60_000, frame + 5);
  bomb.writeUInt16LE(60_000, frame + 7);
  expect(() => decodeImage(native, bomb)).toThrow('pixels; the maximum is');
  expect(() => decodeImage(native, bomb, { size: [1, 1] })).toThrow('pixels; the maximum is');
  expect(() => decodeImage(native, GIF, 1)).toThrow('a GIF has 3 channels, so it cannot be decoded with 1');
  expect(() => decodeImage(native, GIF, { channels: 4 })).toThrow('cannot be decoded with 4');
  expect(decodeImage(native, GIF, 3).shape).toEqual([1, 1, 3]);
});

/** Files that Pillow has written for two pixels of the colours (1, 2, 3) and (250, 10, 20). */
const RGB_BMP = bytes(
  '424d3e0000000000000036000000280000000200000001000000010018000000000008000000c40e0000c40e00000000000000000000 030201140afa0000',
);
const PALETTE_BMP = bytes(
  '424d42000000000000003e000000280000000200000001000000010008000000000004000000c40e0000c40e00000200000002000000 140afa0003020100 01000000',
);

/** Returns the file with another number of bits per pixel and another compression. */
function bmpWith(bits: number, compression: number, rest: Uint8Array = new Uint8Array(0)): Buffer {
  const header = Buffer.from(RGB_BMP.subarray(0, 54));
  header.writeUInt16LE(bits, 28);
  header.writeUInt32LE(compression, 30);
  return Buffer.concat([header, rest]);
}

test('a BMP is rejected if the decoder would misread its pixels', () => {
  const native = { ...tf, node: { decodeImage: () => tf.zeros([1, 1, 3], 'int32') } } as unknown as typeof tf;
  const [bgr, rgb] = ['0000ff0000ff0000ff000000', 'ff00000000ff00000000ff00'].map((hex) => bytes(hex)) as [Buffer, Buffer];
  const greyTable = Uint8Array.from(Array.from({ length: 256 }, (_, grey) => [grey, grey, grey, 0]).flat());
  const grey = Buffer.concat([bmpWith(8, 0), greyTable, Buffer.alloc(4)]);
  grey.writeUInt32LE(54 + 1024, 10);
  const inverse = Buffer.from(grey);
  inverse.fill(255, 54, 57);
  for (const [file, reason] of [
    [PALETTE_BMP, 'has a colour table'],
    [inverse, 'has a colour table'],
    ...[1, 4, 16].map((bits) => [bmpWith(bits, 0), `has ${bits} bits per pixel`] as const),
    [bmpWith(8, 1), 'has the compression 1'],
    [bmpWith(24, 4), 'has the compression 4'],
    [bmpWith(32, 3, rgb), 'has colour masks in another order'],
    [OLD_BMP, 'has a header of 12 bytes'],
  ] as const) {
    expect(() => decodeImage(native, file)).toThrow(reason);
  }
  for (const file of [RGB_BMP, grey, bmpWith(32, 0), bmpWith(32, 3, bgr), PNG, JPEG, GIF]) {
    expect(misreadBmp(file)).toBeNull();
    expect(decodeImage(native, file).shape).toEqual([1, 1, 3]);
  }
});
