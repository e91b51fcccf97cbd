import { expect, test } from 'vitest';
import { partEncoder } from './predict-format.ts';

const RESULT = {
  bytes: Buffer.from([1, 2]),
  array: Uint8Array.of(3),
  longs: BigInt64Array.of(4n, 2n ** 60n),
  inner: { bytes: Buffer.from([5]), list: [Buffer.alloc(0), Float32Array.of(Number.NaN)] },
  day: new Date(0),
};

test('Buffers and typed arrays become lists of numbers in JSON lines', () => {
  expect(partEncoder('jsonl', null).encode(RESULT).toString()).toBe(
    '{"bytes":[1,2],"array":[3],"longs":[4,"1152921504606846976"],"inner":{"bytes":[5],"list":[[],["NaN"]]},"day":"1970-01-01T00:00:00.000Z"}\n',
  );
  expect(
    partEncoder('jsonl', null)
      .encode(Buffer.from([1]))
      .toString(),
  ).toBe('[1]\n');
});

test('Buffers and typed arrays become lists of numbers in CSV', () => {
  const { inner, bytes, array } = RESULT;
  expect(partEncoder('csv', null).encode({ bytes, array, inner }).toString()).toBe(
    'bytes,array,inner\n"[1,2]",[3],"{""bytes"":[5],""list"":[[],[""NaN""]]}"\n',
  );
});
