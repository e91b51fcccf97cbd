import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { LogSource } from '../job-connection.ts';
import { LogReader } from './log-reader.ts';

/** Returns the last lines that a reader finds when it reads `pieceBytes` at a time. */
async function tailOf(text: string, tail: number, pieceBytes: number): Promise<string[]> {
  const file = Buffer.from(text);
  const source: LogSource = {
    task: 'worker:0',
    containerId: 'c1',
    read: async (_, from) => {
      const start = 'offset' in from ? from.offset : Math.max(0, file.length - from.tail);
      const bytes = file.subarray(start, start + pieceBytes);
      return { bytes, end: start + bytes.length };
    },
  };
  const reader = new LogReader(source, 'stdout', tail);
  const all: string[] = [];
  for (;;) {
    const { lines, caughtUp } = await reader.next(true);
    all.push(...lines.map((line) => line.text));
    if (caughtUp) {
      return all;
    }
  }
}

test('the reader returns the wanted number of complete last lines, wherever the fetched range starts', async () => {
  const line = fc.tuple(fc.constantFrom('a', 'é', '語', '🙂', ''), fc.integer({ min: 0, max: 4095 })).map(
    // Each line and its newline fit into the number of bytes that the reader requests per line.
    ([character, bytes]) => character.repeat(Math.floor(bytes / Math.max(1, Buffer.byteLength(character)))),
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(line, { minLength: 1, maxLength: 12 }),
      fc.integer({ min: 1, max: 6 }),
      fc.integer({ min: 100, max: 20_000 }),
      fc.boolean(),
      async (lines, tail, pieceBytes, isEnded) => {
        const text = lines.join('\n') + (isEnded ? '\n' : '');
        // Non-empty text after the last newline is a line.
        const whole = text.endsWith('\n') || text === '' ? text.split('\n').slice(0, -1) : text.split('\n');
        expect(await tailOf(text, tail, pieceBytes)).toEqual(whole.slice(-tail));
      },
    ),
  );
});

test('lines that exactly fill the fetched range are not treated as truncated', async () => {
  const lines = ['a', 'b', 'c'].map((character) => character.repeat(4095));
  expect(await tailOf(lines.map((text) => `${text}\n`).join(''), 2, 1000)).toEqual(lines.slice(1));
});

test.each(['é', '語', '🙂'])(
  'shows the end of a line that is too long, with a mark and without a broken character: %s',
  async (character) => {
    for (const lead of ['', 'x', 'xx', 'xxx']) {
      const [shown, ...others] = await tailOf(`before\n${lead}${character.repeat(10_000)}\n`, 1, 1000);
      expect(others).toEqual([]);
      expect(shown?.slice(0, 1)).toBe('…');
      expect(new Set(shown?.slice(1))).toEqual(new Set([character]));
      expect(Buffer.byteLength(shown ?? '')).toBeGreaterThan(4090);
    }
  },
);

test('a file that does not grow is read less often, until it grows again', async () => {
  let now = 0;
  let grows = true;
  const read = async () => ({ bytes: Buffer.from(grows ? 'line\n' : ''), end: 0 });
  const reader = new LogReader({ task: 'worker:0', containerId: 'c1', read }, 'stdout', undefined, () => now);
  const pauseAt = async (ms: number): Promise<number> => {
    now = ms;
    await reader.next(false);
    while (!reader.isDue) {
      now += 100;
    }
    return now - ms;
  };
  expect(await pauseAt(0)).toBe(0);
  grows = false;
  expect(await pauseAt(10_000)).toBe(500);
  expect(await pauseAt(1_000_000)).toBe(2_000);
  grows = true;
  expect(await pauseAt(2_000_000)).toBe(0);
});

/** Returns the lines of a text that a reader reads in pieces. */
async function linesOf(text: string, pieceBytes: number): Promise<string[]> {
  const file = Buffer.from(text);
  const source: LogSource = {
    task: 'worker:0',
    containerId: 'c1',
    read: async (_, from) => {
      const start = 'offset' in from ? from.offset : 0;
      const bytes = file.subarray(start, start + pieceBytes);
      return { bytes, end: start + bytes.length };
    },
  };
  const reader = new LogReader(source, 'stdout', undefined);
  const all: string[] = [];
  for (;;) {
    const { lines, caughtUp } = await reader.next(true);
    all.push(...lines.map((line) => line.text));
    if (caughtUp) {
      return all;
    }
  }
}

test.each([65_536, 1_000_003, 4 << 20])('lines of up to 16 Mi characters are complete (pieces of %i bytes)', async (pieceBytes) => {
  const lengths = [900_000, 1_200_000, 0, 3_000_000, 10_000_000, 16 << 20, 3];
  const lines = lengths.map((length, at) => `${'abcdefg'.charAt(at)}`.repeat(length));
  const text = `${lines.join('\n')}\n`;
  expect((await linesOf(text, pieceBytes)).map((line) => line.length)).toEqual(lengths);
  expect((await linesOf(text, pieceBytes)).join('\n') === lines.join('\n')).toBe(true);
});

test('a longer line is marked where its beginning is missing', async () => {
  const [line = '', next] = await linesOf(`${'a'.repeat(40_000_000)}z\nnext\n`, 4 << 20);
  expect([line.startsWith('…a'), line.endsWith('az'), line.length >= 16 << 20, line.length < 33 << 20]).toEqual([true, true, true, true]);
  expect(next).toBe('next');
});

test('the lines of generated texts are complete, whatever the pieces are', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.constantFrom('a', 'é', '🙂', '\n', '\n\n', 'x\r\n'), { maxLength: 40 }),
      fc.integer({ min: 1, max: 9 }),
      async (parts, pieceBytes) => {
        const text = `${parts.join('')}.\n`;
        expect(await linesOf(text, pieceBytes)).toEqual(
          text
            .split('\n')
            .slice(0, -1)
            .map((line) => line.replace(/\r$/, '')),
        );
      },
    ),
  );
});
