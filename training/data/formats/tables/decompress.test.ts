import { expect, test } from 'vitest';
import { unpackZstandard } from './decompress.ts';

/** The frames of `zstd` for the text "hello", as a stream (with a window) and from a file (a single segment). */
const SINGLE = Buffer.from('28b52ffd2005290000', 'hex');
const HELLO = Buffer.concat([SINGLE, Buffer.from('hello')]);

function streamed(window: number): Buffer {
  return Buffer.concat([Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0, window, 0x29, 0, 0]), Buffer.from('hello')]);
}

test('Zstandard frames are decompressed, one after the other', () => {
  expect(Buffer.from(unpackZstandard(HELLO, 100)).toString()).toBe('hello');
  expect(Buffer.from(unpackZstandard(Buffer.concat([HELLO, streamed(0x20), HELLO]), 100)).toString()).toBe('hellohellohello');
});

test.each([
  ['a window of 2 GB', streamed(0xa8)],
  ['a window of 2 GB in the second frame', Buffer.concat([HELLO, streamed(0xa8)])],
  ['a single segment of 2 GB', Buffer.from('28b52ffda0000000800000', 'hex')],
  ['contents beyond the limit', streamed(0x20)],
])('Zstandard frames are refused before memory is allocated: %s', (name, data) => {
  expect(() => unpackZstandard(data, name.startsWith('contents') ? 4 : 100)).toThrow(/exceeds \d+ bytes/);
});
