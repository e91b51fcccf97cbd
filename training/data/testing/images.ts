/**
 * Checks the image functions with the runtime's Node.js and the native backend. Writes, decodes and resizes images of every format, and
 * reads them from folders and from Examples. Prints a line for each check.
 */
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type * as tfjs from '@tensorflow/tfjs';
import { encodePng } from '../../../contract/encoding/png.ts';
import { FileStorage } from '../../../storage/file-storage.ts';
import { loadBackend } from '../../backend/backend.ts';
import { encodeExample } from '../formats/example.ts';
import { decodeImage } from '../formats/image.ts';
import { fixedLenFeature, parseExample } from '../formats/parse-example.ts';
import { imageClasses, images, tfRecords } from '../sources/sources.ts';
import { tfRecordFile } from './files.ts';

const { tf } = await loadBackend(1, process.env);
const { encodeJpeg } = (
  tf as unknown as { node: { encodeJpeg(image: tfjs.Tensor3D, format: string, quality: number): Promise<Uint8Array> } }
).node;
const storage = new FileStorage();
const folder = await mkdtemp(join(tmpdir(), 'images-'));
const checked = (what: string) => console.log(`${what} ok`);

const plain = (height: number, width: number, colour: readonly number[]) =>
  Uint8Array.from({ length: height * width * 3 }, (_, index) => colour[index % 3] as number);
const red = [250, 10, 20] as const;

const near = (values: ArrayLike<number>, colour: readonly number[], tolerance: number) => {
  for (let index = 0; index < values.length; index++) {
    const off = Math.abs((values[index] as number) - (colour[index % colour.length] as number));
    assert.ok(off <= tolerance, `value ${index} is ${values[index]}, not ${colour[index % colour.length]}`);
  }
};

/** Encodes an uncompressed BMP. Its rows are stored from bottom to top, padded to four bytes. */
function encodeBmp(height: number, width: number, rgb: Uint8Array): Buffer {
  const row = Math.ceil((width * 3) / 4) * 4;
  const file = Buffer.alloc(54 + row * height);
  file.write('BM');
  file.writeUInt32LE(file.length, 2);
  file.writeUInt32LE(54, 10);
  file.writeUInt32LE(40, 14);
  file.writeInt32LE(width, 18);
  file.writeInt32LE(height, 22);
  file.writeUInt16LE(1, 26);
  file.writeUInt16LE(24, 28);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const at = 54 + (height - 1 - y) * row + x * 3;
      for (let channel = 0; channel < 3; channel++) {
        file[at + channel] = rgb[(y * width + x) * 3 + 2 - channel] as number;
      }
    }
  }
  return file;
}

/** A GIF89a image with two frames of one pixel, one black and one white. The image data are the 3-bit LZW codes clear, pixel and end. */
const GIF = Buffer.from(
  ['474946383961', '01000100800000', '000000ffffff', '2c00000000010001000002024401002c0000000001000100000202', '4c0100', '3b'].join(''),
  'hex',
);

try {
  const before = tf.memory().numTensors;
  const pixels = Uint8Array.from({ length: 5 * 7 * 3 }, (_, index) => (index * 37) % 256);
  const png = await encodePng(7, 5, 3, pixels);
  for (const [name, file] of [
    ['PNG', png],
    ['BMP', encodeBmp(5, 7, pixels)],
  ] as const) {
    const { values, shape } = decodeImage(tf, file);
    assert.deepEqual(shape, [5, 7, 3]);
    assert.deepEqual(values, pixels);
    checked(name);
  }
  const picture = tf.tensor3d(plain(40, 30, red), [40, 30, 3], 'int32');
  const jpeg = await encodeJpeg(picture, 'rgb', 95);
  picture.dispose();
  near(decodeImage(tf, jpeg, 3).values, red, 4);
  assert.deepEqual(decodeImage(tf, jpeg, 1).shape, [40, 30, 1]);
  checked('JPEG, in colours and grey');

  const small = decodeImage(tf, jpeg, { size: [8, 16] });
  assert.deepEqual(small.shape, [8, 16, 3]);
  near(small.values, red, 4);
  assert.ok(small.values instanceof Uint8Array);
  // The left half is black and the right half is white, so the middle third contains both colours.
  const halves = await encodePng(
    30,
    10,
    1,
    Uint8Array.from({ length: 300 }, (_, index) => (index % 30 < 15 ? 0 : 255)),
  );
  const middle = decodeImage(tf, halves, { size: [10, 10], channels: 1, cropToAspectRatio: true });
  assert.deepEqual([...middle.values.slice(0, 10)], [0, 0, 0, 0, 0, 255, 255, 255, 255, 255]);
  const nearest = decodeImage(tf, halves, { size: [10, 10], channels: 1, interpolation: 'nearest' });
  assert.deepEqual(new Set(nearest.values), new Set([0, 255]));
  checked('resized and cropped');

  for (const [classIndex, name] of ['daisy', 'rose', '_hidden'].entries()) {
    await mkdir(join(folder, 'flowers', name), { recursive: true });
    for (let index = 0; index < 10; index++) {
      const colour = [classIndex * 100, index, 7];
      await writeFile(join(folder, 'flowers', name, `${index}.png`), await encodePng(3, 2, 3, plain(2, 3, colour)));
    }
    await writeFile(join(folder, 'flowers', name, 'notes.txt'), 'no image');
  }
  const flowers = images(tf, `${folder}/flowers/*`, { size: [4, 4], channels: 3 });
  assert.deepEqual(await imageClasses(storage, `${folder}/flowers/*`), ['daisy', 'rose']);
  const shares = await Promise.all([0, 1, 2].map((index) => flowers.toArray({ storage, share: { index, count: 3 } })));
  assert.equal(new Set(shares.flat().map(({ uri }) => uri)).size, 20);
  for (const { image, label, uri } of shares.flat()) {
    assert.equal(label, uri.includes('/rose/') ? 1 : 0);
    near(image.values, [label * 100, Number(/(\d+)\.png$/.exec(uri)?.[1]), 7], 0);
  }
  const roses = await images(tf, `${folder}/flowers/*`, { classNames: ['rose'] })
    .batch(32)
    .toArray({ storage });
  assert.deepEqual([roses[0]?.image.shape, new Set(roses[0]?.label.values)], [[10, 2, 3, 3], new Set([0])]);
  checked('one folder per class');

  await writeFile(join(folder, 'flowers', 'rose', '5.png'), 'damaged');
  await assert.rejects(flowers.toArray({ storage }), { code: 'DATA_INVALID', message: /rose\/5\.png: an image cannot be decoded/ });
  const damage: string[] = [];
  const rest = images(tf, `${folder}/flowers/*`, { skipDamaged: true }).read({ storage, onDamage: ({ message }) => damage.push(message) });
  let count = 0;
  for await (const _ of rest) {
    count++;
  }
  assert.deepEqual([count, damage.length, rest.skippedRecords], [19, 1, 1]);
  await assert.rejects(images(tf, `${folder}/flowers/*/notes.txt`).toArray({ storage }), { code: 'NOT_FOUND' });
  checked('damaged images');

  await writeFile(
    join(folder, 'a.tfrecord'),
    tfRecordFile(Array.from({ length: 6 }, (_, label) => encodeExample({ image: label % 2 ? png : jpeg, label: BigInt(label) }))),
  );
  const schema = { image: fixedLenFeature([], 'string'), label: fixedLenFeature([], 'int64') };
  const [batch] = await tfRecords(join(folder, 'a.tfrecord'))
    .map(parseExample(schema))
    .map(({ image, label }) => ({ xs: decodeImage(tf, image, { size: [32, 32], channels: 3 }), ys: label }))
    .batch(6)
    .toArray({ storage });
  assert.deepEqual(
    [batch?.xs.shape, [...(batch?.ys.values ?? [])]],
    [
      [6, 32, 32, 3],
      [0, 1, 2, 3, 4, 5],
    ],
  );
  checked('images in tf.train.Examples');

  assert.deepEqual(decodeImage(tf, GIF), { values: Uint8Array.of(0, 0, 0, 255, 255, 255), shape: [2, 1, 1, 3] });
  assert.deepEqual(decodeImage(tf, GIF, { size: [1, 2] }), { values: new Uint8Array(6), shape: [1, 2, 3] });
  checked('GIF');
  assert.equal(tf.memory().numTensors, before);
  checked('no tensor leaks');
  console.log('done');
} finally {
  await rm(folder, { recursive: true, force: true });
}
