import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type MountTable, mountTable, resolveMount, targetsOf } from './mount-table.ts';

function table(properties: Readonly<Record<string, string>>): MountTable {
  return mountTable('ClusterX', new Map(Object.entries(properties)));
}
const targetOf = (mounts: MountTable, path: string): string | null | undefined => resolveMount(mounts, path)?.target;

/** The examples in Hadoop's ViewFs guide. */
const CLUSTER_X = table({
  'link./data': 'hdfs://nn1-clusterx.example.com:8020/data',
  'link./project': 'hdfs://nn2-clusterx.example.com:8020/project',
  'link./user': 'hdfs://nn3-clusterx.example.com:8020/user',
  'link./tmp': 'hdfs://nn4-clusterx.example.com:8020/tmp',
  linkFallback: 'hdfs://nn5-clusterx.example.com:8020/home',
});
const APPENDIX = table({
  homedir: '/home',
  'link./home': 'hdfs://nn1-clusterx.example.com:8020/home',
  'link./tmp': 'hdfs://nn1-clusterx.example.com:8020/tmp',
  'link./projects/foo': 'hdfs://nn2-clusterx.example.com:8020/projects/foo',
  'link./projects/bar': 'hdfs://nn3-clusterx.example.com:8020/projects/bar',
});
const CLUSTER_Y = table({ linkMergeSlash: 'hdfs://nn1-clustery.example.com:8020/' });

describe('the examples of the ViewFs guide', () => {
  test.each([
    ['/data', 'hdfs://nn1-clusterx.example.com:8020/data'],
    ['/data/a/b', 'hdfs://nn1-clusterx.example.com:8020/data/a/b'],
    ['/database', 'hdfs://nn5-clusterx.example.com:8020/home/database'],
    ['/user/joe', 'hdfs://nn3-clusterx.example.com:8020/user/joe'],
    ['/logs', 'hdfs://nn5-clusterx.example.com:8020/home/logs'],
    ['/', 'hdfs://nn5-clusterx.example.com:8020/home'],
  ])('with a fallback, %s leads to %s', (path, target) => {
    expect(targetOf(CLUSTER_X, path)).toBe(target);
  });

  test('the root lists the mount points, which are fixed', () => {
    expect(resolveMount(CLUSTER_X, '/')).toMatchObject({ names: ['data', 'project', 'user', 'tmp'], isFixed: true, mount: null });
    expect(resolveMount(CLUSTER_X, '/data')).toMatchObject({ names: [], isFixed: true, mount: '/data' });
    expect(resolveMount(CLUSTER_X, '/data/a')).toMatchObject({ isFixed: false, mount: '/data' });
  });

  test('folders above mount points exist only in the table, and other paths have no target', () => {
    expect(resolveMount(APPENDIX, '/projects')).toEqual({ target: null, mount: null, isFixed: true, names: ['foo', 'bar'] });
    expect(resolveMount(APPENDIX, '/')).toMatchObject({ target: null, names: ['home', 'tmp', 'projects'] });
    expect(resolveMount(APPENDIX, '/projects/other')).toBeNull();
    expect(targetOf(APPENDIX, '/projects/foo/x')).toBe('hdfs://nn2-clusterx.example.com:8020/projects/foo/x');
    expect([APPENDIX.homes, CLUSTER_X.homes]).toEqual(['/home', '/user']);
  });

  test('linkMergeSlash merges the root with another root', () => {
    expect(targetOf(CLUSTER_Y, '/')).toBe('hdfs://nn1-clustery.example.com:8020/');
    expect(targetOf(CLUSTER_Y, '/a/b')).toBe('hdfs://nn1-clustery.example.com:8020/a/b');
    expect(resolveMount(CLUSTER_Y, '/a')).toMatchObject({ mount: '/', names: [], isFixed: false });
  });

  test('rejects paths below an nfly link, but no other paths', () => {
    const global = table({
      'linkNfly..../ads': 'uri1,uri2,uri3',
      'linkNfly.minReplication=3,readMostRecent=true./ads2': 'uri1,uri2',
      'link./data': 'hdfs://nn/data',
    });
    expect(() => resolveMount(global, '/ads/z1')).toThrow('is below an nfly link');
    expect(() => resolveMount(global, '/ads2')).toThrow('is below an nfly link');
    expect(targetOf(global, '/data/x')).toBe('hdfs://nn/data/x');
  });

  test('rejects a mount table with a regex link', () => {
    expect(() => table({ 'linkRegx./^(?<username>\\\\w+)': 'gs://bucket/' })).toThrow(
      expect.objectContaining({ code: 'HADOOP_CONF_INVALID', message: expect.stringContaining('linkRegx') }),
    );
  });
});

test.each([
  [{}, 'no mount table for viewfs://ClusterX'],
  [{ homedir: '/home' }, 'no mount table'],
  [{ 'link.data': 'hdfs://nn/' }, 'does not name an absolute path'],
  [{ 'link./a//b': 'hdfs://nn/' }, 'does not name an absolute path'],
  [{ 'link./../b': 'hdfs://nn/' }, 'does not name an absolute path'],
  [{ 'link./': 'hdfs://nn/' }, 'use linkMergeSlash instead'],
  [{ linkMergeSlash: 'hdfs://nn/', 'link./a': 'hdfs://nn/' }, 'excludes all other links'],
  [{ 'linkMerge./a': 'hdfs://nn/,hdfs://mm/' }, 'a linkMerge link'],
])('the table %j is invalid', (properties, message) => {
  expect(() => table(properties)).toThrow(message);
});

test('if mount points are nested, the deepest one applies', () => {
  const nested = table({ 'link./a': 'hdfs://one/a', 'link./a/b/c': 'hdfs://two/c' });
  expect(targetOf(nested, '/a/b')).toBe('hdfs://one/a/b');
  expect(targetOf(nested, '/a/b/c/d')).toBe('hdfs://two/c/d');
  expect(resolveMount(nested, '/a')).toMatchObject({ names: ['b'], isFixed: true });
});

const part = fc.constantFrom('a', 'b', 'ab', 'c');
const pathOf = (least: number) => fc.array(part, { minLength: least, maxLength: 4 }).map((parts) => `/${parts.join('/')}`);

test('resolution follows the longest mount point, and listings lead to every mount point', () => {
  fc.assert(
    fc.property(fc.uniqueArray(pathOf(1), { minLength: 1, maxLength: 6 }), fc.boolean(), pathOf(0), (points, hasFallback, path) => {
      const mounts = table({
        ...Object.fromEntries(points.map((point, index) => [`link.${point}`, `hdfs://n${index}/t`])),
        ...(hasFallback ? { linkFallback: 'hdfs://f/' } : {}),
      });
      const parts = path.split('/').filter((each) => each !== '');
      // An independent model: tries the path and its parents, from the longest to the shortest.
      let expected: string | null = hasFallback ? `hdfs://f/${parts.join('/')}`.replace(/^(hdfs:\/\/f)\/$/, '$1/') : null;
      for (let length = parts.length; length > 0; length -= 1) {
        const index = points.indexOf(`/${parts.slice(0, length).join('/')}`);
        if (index >= 0) {
          expected = [`hdfs://n${index}/t`, ...parts.slice(length)].join('/');
          break;
        }
      }
      expect(resolveMount(mounts, path)?.target ?? null).toBe(expected);
      for (const point of points) {
        const above = point.slice(0, point.lastIndexOf('/')) || '/';
        expect(resolveMount(mounts, above)?.names).toContain(point.slice(point.lastIndexOf('/') + 1));
      }
      expect(targetsOf(mounts)).toHaveLength(points.length + (hasFallback ? 1 : 0));
    }),
  );
});
