import { Buffer } from 'node:buffer';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { encodeFrame, FrameReader } from './frame.ts';

describe('a stream of frames', () => {
  test('yields the same frames however it is split', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 200 }), { maxLength: 8 }), fc.array(fc.nat({ max: 60 })), (bodies, cuts) => {
        const stream = Buffer.concat(bodies.map((body) => encodeFrame(body)));
        const reader = new FrameReader(200);
        const frames: Buffer[] = [];
        let at = 0;
        for (const cut of cuts) {
          frames.push(...reader.push(stream.subarray(at, at + cut)));
          at += cut;
        }
        frames.push(...reader.push(stream.subarray(at)));
        expect(frames.map((frame) => [...frame])).toEqual(bodies.map((body) => [...body]));
        expect(reader.pending).toBe(0);
      }),
    );
  });

  test('yields a whole frame when bytes arrive one by one', () => {
    const body = Buffer.alloc(100_000, 'abc');
    const stream = encodeFrame(body);
    const reader = new FrameReader(200_000);
    const frames = Array.from(stream, (_, index) => reader.push(stream.subarray(index, index + 1))).flat();
    expect(frames).toEqual([body]);
  });
});

test.each([
  ['a frame above the maximum size', '00000401', 'a frame of 1025 bytes exceeds'],
  ['a frame of 2 GiB', '7fffffff', 'exceeds the maximum'],
  ['a negative length', '80000000', 'exceeds the maximum'],
  ['the response to an old client', 'ffffffff', 'version 9'],
  ['HTTP', Buffer.from('HTTP').toString('hex'), 'HTTP'],
])('the first four bytes are enough to reject %s', (_, hex, message) => {
  expect(() => new FrameReader(1024).push(Buffer.from(hex, 'hex'))).toThrow(message);
});
