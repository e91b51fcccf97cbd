import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Reader } from './reader.ts';
import { type Direction, MAX_BODY_BYTES, RECORD_HEADER_BYTES, RecordKey } from './record.ts';
import { RecordReader } from './record-reader.ts';
import { pushInto } from './testing/push-into.ts';

const SECRET = randomBytes(32);
const TRANSCRIPT = randomBytes(120);

function keyOf({ secret = SECRET, transcript = TRANSCRIPT, direction = 'from dialer' as Direction } = {}) {
  return new RecordKey({ key: secret, transcript }, direction);
}

function sealAll(key: RecordKey, bodies: readonly Uint8Array[]): Buffer[] {
  return bodies.map((bytes) => Buffer.concat([key.seal([bytes]), bytes]));
}

/** Collects plaintext in buffers of the given sizes, and pauses after some of them. */
class Collector implements Reader {
  readonly chunks: Buffer[] = [];
  readonly #sizes: Iterator<number>;
  #place = Buffer.alloc(0);
  #filled = 0;
  pauses = false;

  constructor(sizes: Iterator<number>) {
    this.#sizes = sizes;
  }

  destination(): Uint8Array {
    if (this.#filled === this.#place.length) {
      this.#place = Buffer.alloc(this.#sizes.next().value as number);
      this.#filled = 0;
    }
    return this.#place.subarray(this.#filled);
  }

  received(count: number): boolean {
    this.chunks.push(Buffer.from(this.#place.subarray(this.#filled, this.#filled + count)));
    this.#filled += count;
    return !this.pauses;
  }

  get plaintext(): Buffer {
    return Buffer.concat(this.chunks);
  }
}

function* forever<T>(value: T): Generator<T> {
  for (;;) {
    yield value;
  }
}

/** Passes a stream to a reader. @returns the plaintext that the reader delivered, and whether it rejected the stream. */
function readAll(key: RecordKey, stream: Uint8Array, sizes: Iterator<number> = forever(1000)) {
  const collector = new Collector(sizes);
  let invalid = 0;
  const reader = new RecordReader(key, collector, () => {
    invalid++;
  });
  pushInto(reader, stream);
  return { plaintext: collector.plaintext, invalid };
}

const bodies = fc.array(fc.uint8Array({ minLength: 1, maxLength: 200 }), { minLength: 1, maxLength: 6 });

test('records of all sizes arrive unchanged, whatever the sizes of buffers and network chunks', () => {
  const length = fc.oneof(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 1, max: MAX_BODY_BYTES }));
  const sizes = fc.infiniteStream(fc.oneof(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 1, max: 400_000 })));
  fc.assert(
    fc.property(fc.array(length, { maxLength: 5 }), sizes, sizes, (lengths, places, cuts) => {
      const sent = lengths.map((each) => randomBytes(each));
      const stream = Buffer.concat(sealAll(keyOf(), sent));
      const collector = new Collector(places);
      const reader = new RecordReader(keyOf(), collector, (cause) => expect.unreachable(cause));
      for (let at = 0; at < stream.length; ) {
        const cut = cuts.next().value as number;
        // The reader pauses at arbitrary times, while more data arrives.
        collector.pauses = cut % 3 === 0;
        pushInto(reader, stream.subarray(at, at + cut));
        if (cut % 2 === 0) {
          collector.pauses = false;
          reader.resume();
        }
        at += cut;
      }
      collector.pauses = false;
      reader.resume();
      expect(collector.plaintext.equals(Buffer.concat(sent))).toBe(true);
    }),
    { numRuns: 60 },
  );
});

test('a change in any bit is detected before the reader receives a byte of the record', () => {
  fc.assert(
    fc.property(
      bodies,
      fc.nat(),
      fc.integer({ min: 0, max: 7 }),
      fc.infiniteStream(fc.integer({ min: 1, max: 300 })),
      (sent, where, bit, places) => {
        const records = sealAll(keyOf(), sent);
        const stream = Buffer.concat(records);
        const at = where % stream.length;
        stream[at] = (stream[at] as number) ^ (1 << bit);
        // If the change increases the length, the reader waits for more bytes.
        const { plaintext, invalid } = readAll(keyOf(), Buffer.concat([stream, Buffer.alloc(MAX_BODY_BYTES)]), places);
        let intact = 0;
        for (let end = 0; intact < records.length && end + (records[intact] as Buffer).length <= at; intact++) {
          end += (records[intact] as Buffer).length;
        }
        expect(invalid).toBe(1);
        expect(plaintext.equals(Buffer.concat(sent.slice(0, intact)))).toBe(true);
      },
    ),
    { numRuns: 300 },
  );
});

test.each<[string, (records: Buffer[], at: number) => Buffer[]]>([
  ['repeated', (records, at) => records.toSpliced(at, 0, records[at] as Buffer)],
  ['removed', (records, at) => records.toSpliced(at, 1)],
  ['moved', (records, at) => records.toSpliced(at, 2, records[at + 1] as Buffer, records[at] as Buffer)],
  ['replaced by the first record', (records, at) => records.toSpliced(at, 1, records[0] as Buffer)],
])('a record that is %s is detected', (_, change) => {
  const sent = Array.from({ length: 5 }, () => randomBytes(50));
  for (const at of [1, 2, 3]) {
    const records = change(sealAll(keyOf(), sent), at);
    const { plaintext, invalid } = readAll(keyOf(), Buffer.concat(records));
    expect(invalid).toBe(1);
    expect(Buffer.concat(sent).subarray(0, plaintext.length).equals(plaintext)).toBe(true);
    expect(plaintext.length).toBeLessThanOrEqual((at + 1) * 50);
  }
});

test('a stream that ends within a record delivers only the complete records', () => {
  fc.assert(
    fc.property(bodies, fc.nat(), (sent, where) => {
      const records = sealAll(keyOf(), sent);
      const stream = Buffer.concat(records);
      const at = where % stream.length;
      const { plaintext, invalid } = readAll(keyOf(), stream.subarray(0, at));
      let [complete, end] = [0, 0];
      while (end + (records[complete] as Buffer).length <= at) {
        end += (records[complete] as Buffer).length;
        complete++;
      }
      expect(invalid).toBe(0);
      expect(plaintext.equals(Buffer.concat(sent.slice(0, complete)))).toBe(true);
    }),
  );
});

test.each([
  ['another job', { secret: randomBytes(32) }],
  ['another connection or generation', { transcript: randomBytes(120) }],
  ['the other direction', { direction: 'from acceptor' as const }],
])('records of %s are rejected', (_, other) => {
  const [record] = sealAll(keyOf(other), [randomBytes(40)]);
  expect(readAll(keyOf(), record as Buffer)).toMatchObject({ plaintext: Buffer.alloc(0), invalid: 1 });
});

test.each([0, MAX_BODY_BYTES + 1, 2 ** 32 - 1])('a header with the length %i is rejected without waiting for a body', (length) => {
  const header = Buffer.alloc(RECORD_HEADER_BYTES);
  header.writeUInt32BE(length);
  expect(readAll(keyOf(), header).invalid).toBe(1);
});

test('equal plaintexts have different tags, because no nonce repeats', () => {
  const body = randomBytes(100);
  const records = sealAll(
    keyOf(),
    Array.from({ length: 300 }, () => body),
  );
  expect(new Set(records.map((record) => record.toString('hex'))).size).toBe(300);
});
