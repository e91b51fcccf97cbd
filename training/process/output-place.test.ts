import { expect, test } from 'vitest';
import { parseUri } from '../../storage/uri.ts';
import { outputPlace } from './output-place.ts';
import { uriOf } from './uri-of.ts';

test.each(['null/model', 'undefined/model', 'null', 'undefined'])('the place %s, whose folder is not set, is refused', (place) => {
  const refusal = expect.objectContaining({ code: 'USAGE', hint: expect.stringContaining("'model'") });
  expect(() => outputPlace(null, place)).toThrow(refusal);
  expect(() => outputPlace('hdfs://nn/out', place)).toThrow(refusal);
  expect(() => uriOf(place)).toThrow(refusal);
  expect(() => parseUri(place)).toThrow(refusal);
});

test('a folder whose name only begins with null is a folder', () => {
  expect(outputPlace('hdfs://nn/out', 'nullable/model')).toBe('hdfs://nn/out/nullable/model');
  expect(outputPlace('hdfs://nn/out', './null/model')).toBe('hdfs://nn/out/null/model');
});
