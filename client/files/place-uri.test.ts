import { homedir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { fileUri } from '../../storage/uri.ts';
import { placeUri } from './place-uri.ts';

const HOME = 'hdfs://nn:8020/user/alice';

describe('placeUri', () => {
  test.each([
    ['out/x', HOME, 'hdfs://nn:8020/user/alice/out/x'],
    ['./out', HOME, 'hdfs://nn:8020/user/alice/out'],
    ['~/out/x', HOME, 'hdfs://nn:8020/user/alice/out/x'],
    ['~', HOME, HOME],
    ['~/out', 'file:///work', fileUri(join(homedir(), 'out'))],
    ['/out/x', HOME, 'hdfs://nn:8020/out/x'],
    ['hdfs:///out/x', HOME, 'hdfs://nn:8020/out/x'],
    ['hdfs://other:8020/out', HOME, 'hdfs://other:8020/out'],
    ['file:///out', HOME, 'file:///out'],
    ['out/x', 'file:///home/alice%20b', 'file:///home/alice%20b/out/x'],
    ['/out/x', 'file:///home/alice', 'file:///out/x'],
    ['file:///out', 'file:///home/alice', 'file:///out'],
  ])('resolves %s from %s to %s', (place, home, uri) => {
    expect(placeUri(place, home)).toBe(uri);
  });

  test('returns null for null', () => {
    expect(placeUri(null, HOME)).toBeNull();
  });
});
