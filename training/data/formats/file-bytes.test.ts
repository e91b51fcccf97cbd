import { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { FileStorage } from '../../../storage/file-storage.ts';
import type { ReadContext } from '../reading/read-context.ts';
import { readContents } from './file-bytes.ts';

const CONTENTS = Buffer.alloc(100_000, 'contents');

/** A storage whose streams close slowly, like a stream that is still writing a local copy. `atWork` is the number of open streams. */
class SlowlyEndingStorage extends FileStorage {
  atWork = 0;
  readonly #bytes: Buffer;

  constructor(bytes: Buffer) {
    super();
    this.#bytes = bytes;
  }

  override async open(): Promise<Readable> {
    return Readable.from(this.#pieces(), { objectMode: false });
  }

  async *#pieces(): AsyncGenerator<Buffer, void> {
    this.atWork++;
    try {
      for (let at = 0; at < this.#bytes.length; at += 100) {
        yield this.#bytes.subarray(at, at + 100);
      }
    } finally {
      await delay(50);
      this.atWork--;
    }
  }
}

describe.each([
  ['none', CONTENTS],
  ['gzip', gzipSync(CONTENTS, { level: 0 })],
] as const)('readContents closes its storage stream (compression: %s)', (compression, bytes) => {
  function read(): { storage: SlowlyEndingStorage; stop: AbortController; contents: AsyncGenerator<Buffer, void> } {
    const storage = new SlowlyEndingStorage(bytes);
    const stop = new AbortController();
    const context = { storage, signal: stop.signal } as Partial<ReadContext> as ReadContext;
    return { storage, stop, contents: readContents({ uri: 'file:///f', size: bytes.length, modifiedAt: 1 }, compression, 0, context) };
  }

  test('at the end of the file', async () => {
    const { storage, contents } = read();
    const pieces: Buffer[] = [];
    for await (const piece of contents) {
      pieces.push(piece);
    }
    expect(Buffer.concat(pieces).equals(CONTENTS)).toBe(true);
    expect(storage.atWork).toBe(0);
  });

  test('when the consumer leaves the loop', async () => {
    const { storage, contents } = read();
    for await (const _ of contents) {
      expect(storage.atWork).toBe(1);
      break;
    }
    expect(storage.atWork).toBe(0);
  });

  test('when the signal aborts the read', async () => {
    const { storage, stop, contents } = read();
    const loop = async () => {
      for await (const _ of contents) {
        stop.abort(new Error('enough'));
      }
    };
    await expect(loop()).rejects.toThrow('enough');
    expect(storage.atWork).toBe(0);
  });
});
