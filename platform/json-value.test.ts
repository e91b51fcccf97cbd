import fc from 'fast-check';
import { expect, test } from 'vitest';
import { encodeJsonValue } from './json-value.ts';

const encode = (value: unknown) => encodeJsonValue(value, 'args[0]', 'FUNCTION_INVALID');

test('every accepted value survives encoding and parsing', () => {
  fc.assert(fc.property(fc.jsonValue(), (value) => void expect(JSON.parse(encode(value))).toEqual(JSON.parse(JSON.stringify(value)))));
  expect(encode({ rate: 0.1, none: undefined })).toBe('{"rate":0.1}');
  const shared = [1];
  expect(encode([shared, shared])).toBe('[[1],[1]]');
});

test.each([
  [Number.NaN, 'args[0] is NaN'],
  [{ a: [1, { 'b c': Number.POSITIVE_INFINITY }] }, 'args[0].a[1]["b c"] is Infinity'],
  [() => 1, 'args[0] is function'],
  [undefined, 'args[0] is undefined'],
  [[undefined], 'args[0][0] is undefined'],
  [1n, 'args[0] is bigint'],
  [new Date(0), 'args[0] is a Date'],
  [new Float32Array(2), 'args[0] is a Float32Array'],
  [{ map: new Map() }, 'args[0].map is a Map'],
  [Symbol('x'), 'args[0] is symbol'],
  ['x'.repeat(17_000_000), 'args[0] is 17000002 bytes long'],
])('rejects values that JSON cannot represent, and values that are too large (%#)', (value, message) => {
  expect(() => encode(value)).toThrow(message);
});

test('rejects a value that contains itself', () => {
  const value: { self?: unknown } = {};
  value.self = value;
  expect(() => encode(value)).toThrow(/args\[0\]\.self is part of itself/);
});
