import fc from 'fast-check';
import { expect, test } from 'vitest';
import { pushInto } from '../../../contract/connections/testing/push-into.ts';
import { encodeFrame, MAX_HEAD_BYTES, type ServerFrameKind } from './frame.ts';
import { ServerFrameReader } from './frame-reader.ts';

interface Sent {
  readonly kind: ServerFrameKind;
  readonly id: number;
  readonly head: Record<string, unknown> | null;
  readonly body: Uint8Array;
}

const sent: fc.Arbitrary<Sent> = fc.record({
  kind: fc.constantFrom('ask', 'answer', 'refusal', 'held', 'bye' as const),
  id: fc.nat(2 ** 32 - 1),
  head: fc.option(fc.dictionary(fc.string(), fc.oneof(fc.string(), fc.integer()))),
  body: fc.uint8Array({ maxLength: 300 }),
}) as fc.Arbitrary<Sent>;

function bytesOf({ kind, id, head, body }: Sent): Buffer {
  const text = head === null ? Buffer.alloc(0) : Buffer.from(JSON.stringify(head));
  return Buffer.concat([encodeFrame(kind, id, text, body.length), body]);
}

function reader(): { reader: ServerFrameReader; frames: Sent[]; broken: string[] } {
  const frames: Sent[] = [];
  const broken: string[] = [];
  return {
    ...{ frames, broken },
    reader: new ServerFrameReader({
      place: ({ bodyBytes }) => new Uint8Array(bodyBytes),
      complete: ({ kind, id }, head, body) => frames.push({ kind, id, head: head as Sent['head'], body }),
      broken: (reason) => broken.push(reason),
    }),
  };
}

test('the reader returns frames unchanged from chunks of any size', () => {
  fc.assert(
    fc.property(
      fc.array(sent, { maxLength: 12 }),
      fc.infiniteStream(fc.integer({ min: 1, max: 90 })),
      fc.boolean(),
      (all, cuts, inPlace) => {
        const bytes = Buffer.concat(all.map(bytesOf));
        const { reader: under, frames, broken } = reader();
        for (let at = 0; at < bytes.length; ) {
          const chunk = bytes.subarray(at, at + (cuts.next().value as number));
          if (inPlace) {
            const place = under.destination();
            const count = Math.min(place.length, chunk.length);
            place.set(chunk.subarray(0, count));
            under.received(count);
            at += count;
          } else {
            pushInto(under, chunk);
            at += chunk.length;
          }
        }
        expect(broken).toEqual([]);
        expect(frames.map((frame) => ({ ...frame, body: Array.from(frame.body) }))).toEqual(
          all.map((frame) => ({
            ...frame,
            head: frame.head === null ? null : JSON.parse(JSON.stringify(frame.head)),
            body: Array.from(frame.body),
          })),
        );
      },
    ),
  );
});

test('invalid bytes stop the reader, which then ignores later bytes', () => {
  for (const [bytes, reason] of [
    [Buffer.from('GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n'), 'sent data that is not a frame'],
    [encodeFrame('ask', 1, Buffer.from('{"a":'), 0), /JSON/],
  ] as const) {
    const { reader: under, frames, broken } = reader();
    pushInto(under, bytes);
    pushInto(under, encodeFrame('bye', 0, new Uint8Array(0), 0));
    expect(broken).toEqual([expect.stringMatching(reason)]);
    expect(frames).toEqual([]);
    expect(under.destination().length).toBeGreaterThan(0);
  }
});

test('the reader allocates no memory for the length that a header claims', () => {
  const claims = encodeFrame('ask', 1, new Uint8Array(0), 0);
  claims.writeUInt32LE(MAX_HEAD_BYTES + 1, 12);
  const { reader: under, broken } = reader();
  pushInto(under, claims);
  expect(broken).toEqual([expect.stringContaining('sent a frame with a head of')]);

  const refused: string[] = [];
  const strict = new ServerFrameReader({
    place: () => {
      throw new Error('not expected');
    },
    complete: () => {},
    broken: (reason) => refused.push(reason),
  });
  pushInto(strict, encodeFrame('ask', 1, new Uint8Array(0), 2 ** 32 - 1));
  expect(refused).toEqual(['not expected']);
});

test('the header layout matches the comment in frame.ts', () => {
  expect(encodeFrame('answer', 0x01020304, Buffer.from('{}'), 8).toString('hex')).toBe(
    '544e595001000000' + '04030201' + '02000000' + '08000000' + '7b7d',
  );
});
