import { expect, test } from 'vitest';
import { feedPositions, streamPositions } from './feed-positions.ts';

test('another job continues only streams, whose micro-batches have lasting numbers', () => {
  const place = { epoch: 7, records: 120 };
  const inStream = { ...place, query: 'ca1c21f0', division: { ranks: 2, partitions: 4 } };
  const stored = feedPositions.parse({ train: { '*': inStream }, validation: { 0: place, 1: place } });
  expect(streamPositions(stored)).toEqual({ train: { '*': inStream } });
});
