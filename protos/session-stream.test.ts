import { PassThrough } from 'node:stream';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { ServerStream } from './services.ts';
import { MAXIMUM_DATA_BYTES } from './session-protocol.ts';
import { SessionStream, writeTo } from './session-stream.ts';

/** Two connected ends. They count the messages between them. */
function pipe() {
  const between = new PassThrough({ objectMode: true, highWaterMark: 1 });
  const open = (): SessionStream => new SessionStream(between as unknown as ServerStream<'SessionMessage', 'SessionMessage'>);
  return { between, sender: open(), receiver: open() };
}

test('sends all bytes in order, in messages of limited size', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 0, max: 3 * MAXIMUM_DATA_BYTES }), { maxLength: 4 }), async (lengths) => {
      const { between, sender, receiver } = pipe();
      const chunks = lengths.map((length, at) => Buffer.alloc(length, at + 1));
      const source = new PassThrough();
      const received: Buffer[] = [];
      receiver.receive(async ({ data, endOfData }) => {
        await new Promise((resolve) => setImmediate(resolve));
        if (data) {
          received.push(Buffer.from(data.bytes));
        }
        if (endOfData) {
          between.end();
        }
      });
      for (const chunk of chunks) {
        source.write(chunk);
      }
      source.end();
      await sender.sendAll('INPUT', source);
      await receiver.closed;
      expect(Buffer.concat(received).equals(Buffer.concat(chunks))).toBe(true);
      expect(received.every(({ length }) => length <= MAXIMUM_DATA_BYTES)).toBe(true);
    }),
    { numRuns: 30 },
  );
});

test('stops reading the source while the receiver is busy', async () => {
  const { between, sender, receiver } = pipe();
  const source = new PassThrough({ highWaterMark: 1 });
  receiver.receive(() => new Promise<void>(() => {}));
  void sender.sendAll('INPUT', source);
  let accepted = 0;
  while (source.write(Buffer.alloc(10)) || accepted === 0) {
    accepted++;
    await new Promise((resolve) => setImmediate(resolve));
    if (accepted > 100) {
      break;
    }
  }
  expect(accepted).toBeLessThan(100);
  between.destroy();
  await sender.closed;
});

test('a send resolves when the stream closes', async () => {
  const { between, sender } = pipe();
  const sends = Array.from({ length: 10 }, () => sender.send({ endOfData: { channel: 'INPUT' } }));
  between.destroy();
  await expect(Promise.all(sends)).resolves.toHaveLength(10);
  expect(sender.isSending).toBe(false);
});

test('a write to a closed target resolves', async () => {
  const target = new PassThrough({ highWaterMark: 1 });
  const blocked = writeTo(target, Buffer.alloc(10));
  target.destroy();
  await expect(blocked).resolves.toBeUndefined();
  await expect(writeTo(target, Buffer.alloc(1))).resolves.toBeUndefined();
});
