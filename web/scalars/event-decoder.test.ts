import fc from 'fast-check';
import { expect, test } from 'vitest';
import { TfRecordParser } from '../../contract/encoding/tfrecord.ts';
import { encodeFileVersion, encodeRestart, encodeScalars } from '../../contract/summary/event-file.ts';
import { decodeEvent, type ScalarEvent } from './run-reader.ts';

function decodeRecord(bytes: Buffer): ScalarEvent {
  const refuse = (damage: Error) => {
    throw damage;
  };
  const [data] = new TfRecordParser({ where: 'x', offset: 0, end: bytes.length, maxRecordBytes: 1e6, onDamage: refuse }).push(bytes);
  if (data === undefined) {
    throw new Error('no record');
  }
  return decodeEvent(data);
}

const golden = (hex: string): ScalarEvent => decodeRecord(Buffer.from(hex, 'hex'));

// Written with RecordWriter, event_pb2 and tensor_util of the `tensorboard` package, 2.21.
test.each([
  [
    'a tensor of a float',
    '34000000000000005e33175c0900002040fc54d94110072a270a250a046c6f7373420a080112002a040000803e4a110a0d0a077363616c61727312020800200114861d83',
    { tag: 'loss', number: 0.25, form: 'tensor', plugin: 'scalars' },
    7,
  ],
  [
    'a tensor with its content as bytes and without metadata',
    '2100000000000000017becf60900002040fc54d94110082a140a120a046c6f7373420a080112002204cdcccc3dd5d3bd20',
    { tag: 'loss', number: 0.1, form: 'tensor', plugin: null },
    8,
  ],
  [
    'a double',
    '3800000000000000a3797d570900002040fc54d94110092a2b0a290a046c6f7373420e0802120032089a9999999999b93f4a110a0d0a077363616c61727312020800200147e9d236',
    { tag: 'loss', number: 0.1, form: 'tensor', plugin: 'scalars' },
    9,
  ],
  [
    'a negative integer',
    '3a000000000000001295eae20900002040fc54d94110092a2d0a2b0a046c6f7373421008091200520afbffffffffffffffff014a110a0d0a077363616c61727312020800200108ddc21d',
    { tag: 'loss', number: -5, form: 'tensor', plugin: 'scalars' },
    9,
  ],
  [
    'a half-precision float',
    '3200000000000000241956ec0900002040fc54d94110092a250a230a046c6f73734208081312006a02807c4a110a0d0a077363616c6172731202080020018c26e779',
    { tag: 'loss', number: 1.5, form: 'tensor', plugin: 'scalars' },
    9,
  ],
  [
    'a vector, which has no scalar value',
    '3c00000000000000c8b7a3520900002040fc54d94110092a2f0a2d0a046c6f73734212080112041202080222080000c03f000000404a110a0d0a077363616c617273120208002001bb1fb3d6',
    { tag: 'loss', number: null, form: 'tensor', plugin: 'scalars' },
    9,
  ],
  [
    'a text',
    '2800000000000000ff70164a0900002040fc54d94110092a1b0a190a046e6f74654207080712004201784a080a060a04746578743cafb31f',
    { tag: 'note', number: null, form: 'tensor', plugin: 'text' },
    9,
  ],
  [
    'a simple value that is NaN',
    '1a00000000000000129bd82d0900002040fc54d941100a2a0d0a0b0a046c6f7373150000c07f105360e9',
    { tag: 'loss', number: Number.NaN, form: 'simple', plugin: null },
    10,
  ],
] as const)('reads %s', (_what, hex, value, step) => {
  expect(golden(hex)).toEqual({ wallTime: 1_700_000_000.5, step, fileVersion: null, isStart: false, values: [value] });
});

test('reads the events that mark the start of a file and of a run', () => {
  expect(golden('1800000000000000a37f4b220900002040fc54d9411a0d627261696e2e4576656e743a322b353110')).toMatchObject({
    fileVersion: 'brain.Event:2',
    values: [],
  });
  expect(golden('100000000000000095fbfe180900002040fc54d94110ac023a020801b94512a3')).toMatchObject({ step: 300, isStart: true });
});

test('reads the events that `training` writes', () => {
  const tags = fc.array(fc.record({ tag: fc.string({ unit: 'grapheme', maxLength: 30 }), value: fc.float() }), { maxLength: 6 });
  fc.assert(
    fc.property(fc.double({ min: 0, max: 4e9, noNaN: true }), fc.nat(2 ** 48), tags, (wallTime, step, scalars) => {
      const { values, ...rest } = decodeRecord(encodeScalars(wallTime, step, scalars));
      expect(rest).toEqual({ wallTime, step, fileVersion: null, isStart: false });
      expect(values.map(({ tag, number }) => ({ tag, value: Math.fround(number as number) + 0 }))).toEqual(
        scalars.map(({ tag, value }) => ({ tag: Buffer.from(tag).toString('utf8'), value: value + 0 })),
      );
    }),
  );
  expect(decodeRecord(encodeFileVersion(5))).toMatchObject({ wallTime: 5, fileVersion: 'brain.Event:2' });
  expect(decodeRecord(encodeRestart(5, 2 ** 40))).toMatchObject({ step: 2 ** 40, isStart: true });
});

test('rejects bytes that are not an event with DATA_INVALID and no other error', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      try {
        decodeEvent(Buffer.from(bytes));
      } catch (error) {
        expect(error).toMatchObject({ code: 'DATA_INVALID' });
      }
    }),
    { numRuns: 2000 },
  );
});

test('an event with very many values is rejected after a bounded amount of work', () => {
  const empty = Buffer.from([0x0a, 0x00]);
  const eventWith = (count: number): Buffer => {
    const length = Buffer.from([((count * 2) & 0x7f) | 0x80, (((count * 2) >> 7) & 0x7f) | 0x80, (count * 2) >> 14]);
    return Buffer.concat([Buffer.from([0x2a]), length, ...Array.from({ length: count }, () => empty)]);
  };
  expect(decodeEvent(eventWith(10_000)).values).toHaveLength(10_000);
  expect(() => decodeEvent(eventWith(10_001))).toThrow('an event has more than 10000 values');
});
