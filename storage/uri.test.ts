import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { fileUri, joinUri, nameOf, parentUri, parseUri } from './uri.ts';

describe('file URIs', () => {
  test('a file URI is parsed into scheme, authority and path', () => {
    expect(parseUri('hdfs://nn:8020/a//b/')).toEqual({ scheme: 'hdfs', authority: 'nn:8020', path: '/a/b' });
    expect(parseUri('SWebHDFS://nn:9871/a')).toEqual({ scheme: 'swebhdfs', authority: 'nn:9871', path: '/a' });
    expect(parseUri('viewfs://ClusterX/a')).toEqual({ scheme: 'viewfs', authority: 'ClusterX', path: '/a' });
    expect(parseUri('hdfs:///a')).toEqual({ scheme: 'hdfs', authority: '', path: '/a' });
    expect(parseUri('hdfs://nn')).toEqual({ scheme: 'hdfs', authority: 'nn', path: '/' });
    expect(parseUri('hdfs://nn/day=10%3A30')).toEqual({ scheme: 'hdfs', authority: 'nn', path: '/day=10%3A30' });
    expect(parseUri('file:///a%20b')).toEqual({ scheme: 'file', path: '/a b' });
    expect(parseUri('file:/a b')).toEqual({ scheme: 'file', path: '/a b' });
    expect(parseUri('file:///100%')).toEqual({ scheme: 'file', path: '/100%' });
  });

  test.each(['', '/a', 'a/b', 'gs://x/y', 's3:///key', 'hdfs', 'file://host/a', 'hdfs://nn/a/../b', 'file:///a/%2e%2e/b', 'file:///%00'])(
    'the malformed URI %j is rejected',
    (uri) => {
      expect(() => parseUri(uri)).toThrow();
    },
  );

  test('names are joined to a file URI and split from it', () => {
    expect(joinUri('hdfs://nn/a/', 'b', 'c/d')).toBe('hdfs://nn/a/b/c/d');
    expect(joinUri('file:///a', '100%')).toBe('file:///a/100%25');
    expect(parentUri('hdfs://nn/a/b')).toBe('hdfs://nn/a');
    expect(parentUri('hdfs://nn/a')).toBe('hdfs://nn/');
    expect(parentUri('hdfs://nn/')).toBe('hdfs://nn/');
    expect(parentUri('hdfs://nn')).toBe('hdfs://nn');
    expect(parentUri('hdfs://nn/\u2028')).toBe('hdfs://nn/');
    expect(parentUri('hdfs://nn/\n/a')).toBe('hdfs://nn/\n');
    expect(parentUri('file:///a')).toBe('file:///');
    expect(fileUri('/')).toBe('file:///');
  });

  test('joining and splitting are inverse operations for any name', () => {
    const name = fc
      .string({ unit: 'grapheme', minLength: 1, maxLength: 12 })
      .filter((text) => !/[/\0]/.test(text) && text !== '.' && text !== '..');
    fc.assert(
      fc.property(
        fc.constantFrom('hdfs://nn:8020/a', 'hdfs:///', 'webhdfs://nn:9870/a', 'viewfs:///', 's3://bucket/a', 'file:///tmp/x', 'file:///'),
        name,
        (folder, last) => {
          const uri = joinUri(folder, last);
          expect(nameOf(uri)).toBe(last);
          expect(parseUri(parentUri(uri))).toEqual(parseUri(folder));
        },
      ),
    );
    fc.assert(fc.property(name, (last) => void expect(parseUri(fileUri(`/a/${last}`))).toEqual({ scheme: 'file', path: `/a/${last}` })));
  });
});
