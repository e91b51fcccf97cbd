import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Readable } from 'node:stream';
import fc from 'fast-check';
import { expect, onTestFinished, test } from 'vitest';
import { ReceivedPieces } from './received-pieces.ts';

async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-pieces-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

function frame(content: Uint8Array): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(content.length);
  return Buffer.concat([length, content]);
}

function piece(contents: readonly Uint8Array[], trailer: string): Buffer {
  return Buffer.concat([...contents.filter(({ length }) => length > 0).map(frame), Buffer.alloc(4), frame(Buffer.from(trailer))]);
}

test('the file contains the bytes of all frames, however the network divides them', async () => {
  const pieces = new ReceivedPieces(await temporaryFolder());
  let number = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(fc.uint8Array({ maxLength: 40 })), fc.integer({ min: 1, max: 17 }), async (contents, size) => {
      const sent = piece(contents, '{"records":3}');
      const chunks = Array.from({ length: Math.ceil(sent.length / size) }, (_, index) => sent.subarray(index * size, (index + 1) * size));
      const key = `train-0-${number++}`;
      expect(await pieces.receive(key, Readable.from(chunks))).toBe(true);
      const content = Buffer.concat(contents);
      const received = pieces.get(key);
      expect(received).toMatchObject({ records: 3, bytes: content.length, digest: createHash('sha256').update(content).digest('hex') });
      expect(readFileSync(received?.file ?? '')).toEqual(content);
      pieces.remove(key);
    }),
    { numRuns: 50 },
  );
});

test.each([
  ['without a trailer', Buffer.concat([frame(Buffer.from('ab'))]), /incomplete/],
  ['that ends within a frame', frame(Buffer.from('abc')).subarray(0, 6), /incomplete/],
  ['with an invalid trailer', piece([], '{"records":-1}'), /trailer is invalid/],
  ['with bytes after the trailer', Buffer.concat([piece([], '{"records":1}'), Buffer.from('x')]), /bytes follow/],
  ['with a frame that is too large', Buffer.from([0x10, 0, 0, 0]), /too large/],
])('a piece %s is rejected and leaves no file', async (_, sent, message) => {
  const folder = await temporaryFolder();
  const pieces = new ReceivedPieces(folder);
  await expect(pieces.receive('train-0-0', Readable.from([sent]))).rejects.toThrow(message);
  expect(pieces.get('train-0-0')).toBeUndefined();
  expect(readdirSync(folder)).toEqual([]);
});

test('the first of two copies stays, and only its bytes count', async () => {
  const pieces = new ReceivedPieces(await temporaryFolder());
  const sent = piece([Buffer.from('abc')], '{"records":1}');
  const stored = await Promise.all([1, 2].map(() => pieces.receive('train-0-0', Readable.from([sent]))));
  expect(stored.sort()).toEqual([false, true]);
  expect(pieces.bytes).toBe(3);
  const { file } = pieces.get('train-0-0') ?? { file: '' };
  expect(existsSync(file)).toBe(true);
  pieces.remove('train-0-0');
  expect(pieces.bytes).toBe(0);
  await expect.poll(() => existsSync(file)).toBe(false);
});
