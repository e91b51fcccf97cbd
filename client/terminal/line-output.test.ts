import { Writable } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { LineOutput } from './line-output.ts';

function recorder(name: string, writes: string[], highWaterMark = 1 << 20): Writable {
  return new Writable({
    decodeStrings: false,
    highWaterMark,
    write: (chunk: string, _, done) => {
      writes.push(`${name} ${chunk}`);
      setImmediate(done);
    },
  });
}

test('writes the lines of one turn together, and keeps their order across both streams', async () => {
  const writes: string[] = [];
  const [out, err] = [recorder('out', writes), recorder('err', writes)];
  const output = new LineOutput();
  for (const [stream, line] of [
    [out, 'a\n'],
    [out, 'b\n'],
    [err, 'c\n'],
    [out, 'd\n'],
  ] as const) {
    await output.write(stream, line);
  }
  expect(writes).toEqual(['out a\nb\n', 'err c\n']);
  // The last line is written even though no other line follows.
  await turn();
  expect(writes).toEqual(['out a\nb\n', 'err c\n', 'out d\n']);
});

test('writes large texts in large pieces, at the rate at which the stream accepts them', async () => {
  const writes: string[] = [];
  const out = recorder('out', writes, 100_000);
  const output = new LineOutput();
  let most = 0;
  for (let at = 0; at < 100_000; at++) {
    await output.write(out, 'a line of a program\n');
    most = Math.max(most, out.writableLength);
  }
  await output.flush();
  expect(writes.length).toBeLessThan(100);
  expect(most).toBeLessThan(300_000);
  await turn();
  expect(writes.reduce((sum, { length }) => sum + length - 'out '.length, 0)).toBe(2_000_000);
});
