import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inflateSync } from 'node:zlib';
import * as tf from '@tensorflow/tfjs';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { FileStorage } from '../../storage/file-storage.ts';
import { fileUri } from '../../storage/uri.ts';
import { crc32c, maskedCrc32c } from '../encoding/crc32c.ts';
import { encodePng } from '../encoding/png.ts';
import { encodeFileVersion, encodeRestart, encodeScalars, encodeTensorValue } from './event-file.ts';
import { histogramOf, histogramValue, NO_SUMMARIES, type Summaries, SummaryWriter, textValue } from './summary.ts';
import { experimentValue, type Hyperparameters, sessionEndValue, sessionStartValue } from './summary-hparams.ts';
import { picturesShape } from './summary-image.ts';

test('crc32c agrees with the examples of RFC 3720', () => {
  expect(crc32c(new Uint8Array(32))).toBe(0x8a9136aa);
  expect(crc32c(new Uint8Array(32).fill(0xff))).toBe(0x62a8ab43);
  expect(crc32c(Uint8Array.from({ length: 32 }, (_, index) => index))).toBe(0x46dd794e);
  expect(crc32c(Buffer.from('123456789'))).toBe(0xe3069283);
  expect(maskedCrc32c(Buffer.from('123456789'))).toBe(0xc78ab0e5);
});

describe('events have the same bytes as those that TensorBoard 2.21 writes', () => {
  // The expected bytes were recorded with RecordWriter, event_pb2 and the plugins' write functions from the `tensorboard` package.
  const NOW = 1_700_000_000.5;

  test('file version, restart and scalars', () => {
    expect(encodeFileVersion(NOW).toString('hex')).toBe('1800000000000000a37f4b220900002040fc54d9411a0d627261696e2e4576656e743a322b353110');
    expect(encodeRestart(NOW, 300).toString('hex')).toBe('100000000000000095fbfe180900002040fc54d94110ac023a020801b94512a3');
    const scalars = [
      { tag: 'train/loss', value: 0.5 },
      { tag: 'acc', value: 0.1 },
    ];
    expect(encodeScalars(NOW, 300, scalars).toString('hex')).toBe(
      '2d000000000000003c418afb0900002040fc54d94110ac022a1f0a110a0a747261696e2f6c6f7373150000003f0a0a0a0361636315cdcccc3d3eb378db',
    );
  });

  test('histograms: histogram_pb', () => {
    const of = (numbers: number[]) => encodeTensorValue(NOW, 300, histogramValue('w', histogramOf(numbers, 2))).toString('hex');
    expect(of([0, 1, 1, 4])).toBe(
      '6300000000000000b16b13d90900002040fc54d94110ac022a550a530a0177423e080212081202080212020803223000000000000000000000000000000040' +
        '000000000000084000000000000000400000000000001040000000000000f03f4a0e0a0c0a0a686973746f6772616d73711281a9',
    );
    expect(of([5, 5])).toBe(
      '6300000000000000b16b13d90900002040fc54d94110ac022a550a530a0177423e080212081202080212020803223000000000000014400000000000001440' +
        '0000000000000000000000000000144000000000000014400000000000000040' +
        '4a0e0a0c0a0a686973746f6772616d73d3d0bb78',
    );
  });

  test('texts: text_pb', () => {
    expect(encodeTensorValue(NOW, 300, textValue('note', 'hallo **ü**')).toString('hex')).toBe(
      '34000000000000005e33175c0900002040fc54d94110ac022a260a240a046e6f7465421208071200420c68616c6c6f202a2ac3bc2a2a4a080a060a047465787419' +
        '44c014',
    );
  });

  test('hyperparameters: hparams_pb, hparams_config_pb, session_end_pb', () => {
    const start = (values: Hyperparameters) => encodeTensorValue(NOW, 0, sessionStartValue(NOW, values, 'job_1')).toString('hex');
    expect(start({ optimizer: 'adam' })).toBe(
      '6900000000000000360b3c6e0900002040fc54d9412a5e0a5c0a1c5f68706172616d735f2f73657373696f6e5f73746172745f696e666f42060801120212004a34' +
        '0a320a0768706172616d7312271a250a130a096f7074696d697a657212061a046164616d22056a6f625f312900002040fc54d94171e8b892',
    );
    expect(start({ lr: 0.5 })).toBe(
      '6500000000000000ebd05a690900002040fc54d9412a5a0a580a1c5f68706172616d735f2f73657373696f6e5f73746172745f696e666f42060801120212004a30' +
        '0a2e0a0768706172616d7312231a210a0f0a026c72120911000000000000e03f22056a6f625f312900002040fc54d94193b0be1a',
    );
    expect(start({ nesterov: false })).toBe(
      '6400000000000000435f1cdf0900002040fc54d9412a590a570a1c5f68706172616d735f2f73657373696f6e5f73746172745f696e666f42060801120212004a2f' +
        '0a2d0a0768706172616d7312221a200a0e0a086e65737465726f761202200022056a6f625f312900002040fc54d9419926ec1b',
    );
    expect(encodeTensorValue(NOW, 0, sessionEndValue(NOW, true)).toString('hex')).toBe(
      '4d000000000000003d63d4a60900002040fc54d9412a420a400a1a5f68706172616d735f2f73657373696f6e5f656e645f696e666f42060801120212004a1a0a18' +
        '0a0768706172616d73120d220b08011100002040fc54d94156cd5d08',
    );
    const values = { optimizer: 'adam', lr: 0.5, nesterov: true };
    const metrics = [{ tag: 'loss' }, { tag: 'acc', title: 'accuracy' }];
    expect(encodeTensorValue(NOW, 0, experimentValue(NOW, values, metrics)).toString('hex')).toBe(
      '8700000000000000b86f57e60900002040fc54d9412a7c0a7a0a145f68706172616d735f2f6578706572696d656e7442060801120212004a5a0a580a0768706172' +
        '616d73124d124b1900002040fc54d94122060a026c722003220c0a086e65737465726f762002220d0a096f7074696d697a657220012a080a0612046c6f73732a11' +
        '0a0512036163631a0861636375726163797b63e13e',
    );
  });
});

test('histograms count every finite number in exactly one bucket that contains it', () => {
  fc.assert(
    fc.property(fc.array(fc.double()), fc.integer({ min: 1, max: 40 }), (numbers, count) => {
      const { buckets, notFinite } = histogramOf(numbers, count);
      const finite = numbers.filter(Number.isFinite);
      expect(notFinite).toBe(numbers.length - finite.length);
      const counts = Array.from({ length: count }, (_, bucket) => buckets[bucket * 3 + 2] as number);
      expect(counts.reduce((sum, value) => sum + value, 0)).toBe(finite.length);
      if (finite.length > 0) {
        // Adding 0 turns -0 into 0.
        expect((buckets[0] as number) + 0).toBe(Math.min(...finite) + 0);
        expect((buckets[count * 3 - 2] as number) + 0).toBe(Math.max(...finite) + 0);
      }
      expect(buckets.every(Number.isFinite)).toBe(true);
    }),
  );
});

test('PNGs contain the pixels and correct checksums', async () => {
  for (const channels of [1, 2, 3, 4]) {
    const pixels = Uint8Array.from({ length: 3 * 2 * channels }, (_, index) => index * 9);
    const png = await encodePng(3, 2, channels, pixels);
    const chunks: Record<string, Buffer> = {};
    for (let at = 8; at < png.length; at += 12 + png.readUInt32BE(at)) {
      chunks[png.toString('latin1', at + 4, at + 8)] = png.subarray(at + 8, at + 8 + png.readUInt32BE(at));
    }
    expect(Object.keys(chunks)).toEqual(['IHDR', 'IDAT', 'IEND']);
    const rows = inflateSync(chunks.IDAT as Buffer);
    const stride = 3 * channels;
    expect([...rows]).toEqual([0, ...pixels.subarray(0, stride), 0, ...pixels.subarray(stride)]);
  }
  // The checksum of an empty IEND chunk is a known constant.
  expect((await encodePng(1, 1, 1, Uint8Array.of(7))).subarray(-12).toString('hex')).toBe('0000000049454e44ae426082');
});

test('images have the shape [h, w], [h, w, c] or [n, h, w, c]', () => {
  expect(picturesShape([2, 3])).toEqual({ count: 1, height: 2, width: 3, channels: 1 });
  expect(picturesShape([2, 3, 4])).toEqual({ count: 1, height: 2, width: 3, channels: 4 });
  expect(picturesShape([5, 2, 3, 1])).toEqual({ count: 5, height: 2, width: 3, channels: 1 });
  for (const shape of [[], [4], [2, 3, 5], [2, 0], [1, 2, 3, 4, 1]]) {
    expect(picturesShape(shape)).toBeNull();
  }
});

describe('a writer', () => {
  let folder: string;
  let troubles: string[];
  const writers: SummaryWriter[] = [];
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'summaries-'));
    troubles = [];
  });
  afterEach(async () => {
    // A writer with pending values would create the folder again.
    await Promise.all(writers.splice(0).map((writer) => writer.finish()));
    await rm(folder, { recursive: true });
  });

  const open = (now?: () => number) => {
    const writer = new SummaryWriter({
      storage: new FileStorage(),
      dir: fileUri(join(folder, 'train')),
      onTrouble: (message) => troubles.push(message),
      ...(now === undefined ? {} : { now }),
    });
    writers.push(writer);
    return writer;
  };
  const names = () => readdir(join(folder, 'train'));
  const content = async () => Buffer.concat(await Promise.all((await names()).map((name) => readFile(join(folder, 'train', name)))));

  test('on disk appends to one file', async () => {
    const writer = open();
    await writer.flush();
    writer.scalar('a', 1, 1);
    await writer.flush();
    const [name] = await names();
    expect(name).toMatch(/^events\.out\.tfevents\.\d{10}\./);
    const before = await content();
    writer.scalars({ a: 2, b: 3 }, 2);
    await writer.flush();
    expect(await names()).toEqual([name]);
    const after = await content();
    expect(after.subarray(0, before.length).equals(before)).toBe(true);
    expect(after.length).toBeGreaterThan(before.length);
    expect(writer.isEmpty).toBe(true);
  });

  test('a writer names its file after those of the previous run, even when its clock is behind', async () => {
    const first = open(() => 1_700_000_100_000);
    first.scalar('a', 1, 1);
    await first.flush();
    const second = open(() => 1_700_000_000_000);
    second.scalar('a', 2, 2);
    await second.flush();
    expect((await names()).map((name) => name.split('.')[3])).toEqual(['1700000100', '1700000101']);
  });

  test('a writer keeps the order of values that are encoded in the background, and flush waits for them', async () => {
    const writer = open();
    writer.image('picture', tf.zeros([4, 4]), 1);
    writer.text('after', 'text', 2);
    await writer.flush();
    const written = (await content()).toString('latin1');
    expect(written.indexOf('picture')).toBeGreaterThan(0);
    expect(written.indexOf('after')).toBeGreaterThan(written.indexOf('IEND'));
  });

  test('a writer writes pending values synchronously when the process ends', async () => {
    const writer = open();
    writer.scalar('a', 1, 1);
    await writer.flush();
    writer.scalar('b', 2, 2);
    writer.finishNow();
    const written = await content();
    expect(written.subarray(-encodeScalars(0, 2, [{ tag: 'b', value: 2 }]).length).includes('b')).toBe(true);
    writer.scalar('c', 3, 3);
    const flushed = writer.flush();
    writer.scalar('d', 4, 4);
    writer.finishNow();
    await flushed;
    const all = await content();
    expect(all.subarray(0, written.length).equals(written)).toBe(true);
    expect(all.length - written.length).toBe(2 * encodeScalars(0, 3, [{ tag: 'c', value: 3 }]).length);
  });

  test('a writer reports a storage failure once, and writes all values after storage recovers', async () => {
    await writeFile(join(folder, 'train'), 'a file instead of the folder');
    const writer = open();
    writer.scalar('a', 1, 1);
    await writer.flush();
    writer.scalar('b', 2, 2);
    await writer.flush();
    expect(troubles).toEqual([expect.stringMatching(/^summaries could not be written and will be retried: /)]);
    await rm(join(folder, 'train'));
    await writer.flush();
    const written = (await content()).toString('latin1');
    expect(written).toContain('a');
    expect(written).toContain('b');
    expect(writer.isEmpty).toBe(true);
  });

  test('a writer starts a new file when its file has been removed', async () => {
    const writer = open();
    writer.scalar('a', 1, 1);
    await writer.flush();
    await rm(join(folder, 'train'), { recursive: true });
    writer.scalar('b', 2, 2);
    await writer.flush();
    await writer.flush();
    const written = await content();
    expect(written.includes('brain.Event:2')).toBe(true);
    expect(written.length).toBeGreaterThan(encodeScalars(1, 2, [{ tag: 'b', value: 2 }]).length);
  });

  test('a writer drops the oldest values when storage stays unavailable, and reports it', async () => {
    await writeFile(join(folder, 'train'), '');
    const writer = open();
    await writer.flush();
    const text = 'x'.repeat(1024 * 1024);
    for (let step = 0; step < 40; step++) {
      writer.text(`text ${step}.`, text, step);
      await writer.flush();
    }
    expect(troubles).toHaveLength(2);
    expect(troubles[1]).toMatch(/more than 32 MiB of summaries are waiting .*; the oldest summaries are dropped/);
    await rm(join(folder, 'train'));
    await writer.flush();
    const written = await content();
    expect(written.length).toBeLessThan(33 * 1024 * 1024);
    expect(written.includes('text 39.')).toBe(true);
    expect(written.includes('text 1.')).toBe(false);
  });

  test('neither disposes nor keeps tensors of the program', async () => {
    const writer = open();
    const before = tf.memory().numTensors;
    const kept = tf.tidy(() => {
      const image = tf.ones([5, 4, 4, 3]);
      writer.image('batch', image, 0, { max: 2 });
      writer.histogram('numbers', image, 0);
      return image;
    });
    expect(tf.memory().numTensors).toBe(before + 1);
    expect(kept.isDisposed).toBe(false);
    kept.dispose();
    await writer.flush();
    expect(tf.memory().numTensors).toBe(before);
    expect((await content()).toString('latin1').match(/IEND/g)).toHaveLength(2);
  });

  test('a writer rejects values that cannot be displayed', () => {
    const writer = open();
    const wrong: [(summaries: Summaries) => void, RegExp][] = [
      [(summaries) => summaries.scalar('', 1, 1), /invalid tag empty/],
      [(summaries) => summaries.scalar('a', 1, -1), /invalid step -1/],
      [(summaries) => summaries.scalar('a', 1, 0.5), /invalid step 0.5/],
      [(summaries) => summaries.scalar('a', '1' as unknown as number, 1), /the scalar a is 1, not a number/],
      [(summaries) => summaries.scalars({ a: 1, b: undefined as unknown as number }, 1), /the scalar b is undefined/],
      [(summaries) => summaries.histogram('h', 'abc' as unknown as number[], 1), /not a tensor or an array of numbers/],
      [(summaries) => summaries.histogram('h', ['1'] as unknown as number[], 1), /an array, not a tensor or an array of numbers/],
      [(summaries) => summaries.histogram('h', [1], 1, { buckets: 0 }), /0 buckets, but must/],
      [(summaries) => summaries.histogram('h', tf.tensor(['a']), 1), /holds string, not numbers/],
      [(summaries) => summaries.image('i', tf.zeros([3]), 1), /has the shape \[3\]/],
      [(summaries) => summaries.image('i', tf.zeros([2, 2, 5]), 1), /has the shape \[2, 2, 5\]/],
      [(summaries) => summaries.image('i', { values: new Uint8Array(3), shape: [2, 2] }, 1), /has 3 values, but its shape requires 4/],
      [(summaries) => summaries.image('i', { values: new Uint8Array(3), shape: [5000, 5000] }, 1), /the maximum is 16777216/],
      [(summaries) => summaries.image('i', tf.zeros([2, 2]), 1, { max: 0 }), /max of the image i is 0/],
      [(summaries) => summaries.text('another', 1 as unknown as string, 1), /the text another is 1, not a string/],
      [(summaries) => summaries.hparams({ rate: Number.NaN }), /the hyperparameter rate is NaN/],
      [(summaries) => summaries.hparams({ layers: [1] as unknown as string }), /the hyperparameter layers is an array/],
      [(summaries) => summaries.resumeFrom(Number.NaN), /invalid step NaN/],
    ];
    for (const [call, message] of wrong) {
      expect(() => call(writer)).toThrow(message);
      expect(() => call(writer)).toThrow(expect.objectContaining({ code: 'SUMMARY_INVALID' }));
      call(NO_SUMMARIES);
    }
    expect(writer.isEmpty).toBe(true);
  });

  test('a writer rejects a tag with two kinds of values, because TensorBoard would display neither', () => {
    const writer = open();
    writer.scalar('a', 1, 1);
    writer.scalar('a', 2, 2);
    expect(() => writer.histogram('a', [1], 2)).toThrow('the tag a already holds scalars and cannot hold histograms as well');
  });

  test('a writer reports numbers that TensorBoard cannot display, once for each tag', () => {
    const writer = open();
    for (const step of [1, 2]) {
      writer.histogram('weights', [1, Number.NaN], step);
      writer.image('digits', tf.fill([2, 2], 200), step);
    }
    writer.image('bytes', tf.fill([2, 2], 200, 'int32'), 1);
    writer.hparams({ rate: 1 });
    writer.scalar('loss', 1, 1);
    writer.hparams({ late: 1 });
    expect(troubles).toEqual([
      'the histogram weights at step 1 omits NaN and infinite numbers: 1',
      'the image digits appears mostly white: floating-point numbers must be 0 to 1, or integers 0 to 255',
      expect.stringMatching(/set after the start of training are not shown/),
    ]);
  });
});
