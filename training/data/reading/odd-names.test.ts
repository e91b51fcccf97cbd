import { expect, test } from 'vitest';
import { FileStorage } from '../../../storage/file-storage.ts';
import type { Entry, Storage } from '../../../storage/storage.ts';
import { fileUri, joinUri } from '../../../storage/uri.ts';
import type { Cluster } from '../../cluster/cluster.ts';
import { predict } from '../../inference/predict.ts';
import { files, lines } from '../sources/sources.ts';
import { folderWith } from '../testing/files.ts';

const local = new FileStorage();

/** Names that would match other files if they were patterns, and names with characters that URIs encode. */
const NAMES = ['a[1].txt', 'a1.txt', 'b*.txt', 'bb.txt', 'c?.txt', 'cc.txt', '{d,e}.txt', 'd.txt', 'p%20 q.txt', 'p  q.txt', '%5B.txt'];

/** Shows the local folder under the URI `root`, whose names are not percent-encoded, as on HDFS and in object stores. */
function under(root: string, folder: string): Storage {
  const toLocal = (uri: string) => joinUri(fileUri(folder), uri.slice(root.length));
  const toRoot = (entry: Entry): Entry => {
    return { ...entry, uri: root + decodeURIComponent(entry.uri.slice(fileUri(folder).length)) };
  };
  return {
    open: (uri, range) => local.open(toLocal(uri), range),
    read: (uri) => local.read(toLocal(uri)),
    write: (uri, data, options) => local.write(toLocal(uri), data, options),
    stat: async (uri) => {
      const entry = await local.stat(toLocal(uri));
      return entry && toRoot(entry);
    },
    list: async (uri, options) => (await local.list(toLocal(uri), options)).map(toRoot),
    rename: (from, to) => local.rename(toLocal(from), toLocal(to)),
    remove: (uri) => local.remove(toLocal(uri)),
    makeFolder: (uri) => local.makeFolder(toLocal(uri)),
    close: () => {},
  };
}

const FILE_SYSTEMS = ['file:///', 'hdfs://ns/data', 's3://bucket/data'];

async function open(root: string): Promise<{ storage: Storage; folder: string }> {
  const folder = await folderWith(Object.fromEntries(NAMES.map((name) => [name, `${name}\n`])));
  return root === 'file:///' ? { storage: local, folder: fileUri(folder) } : { storage: under(root, folder), folder: root };
}

const sorted = (names: readonly string[]) => [...names].sort((a, b) => (a < b ? -1 : 1));

test.each(FILE_SYSTEMS)('a URI that a dataset returns is read as it is: %s', async (root) => {
  const { storage, folder } = await open(root);
  const found = await files(folder).toArray({ storage });
  expect(found).toHaveLength(NAMES.length);
  const direct = await Promise.all(found.map(({ uri }) => lines(uri).toArray({ storage })));
  expect(sorted(direct.flat())).toEqual(sorted(NAMES));
  const read = await files(folder)
    .interleave(({ uri }) => lines(uri))
    .toArray({ storage });
  expect(sorted(read)).toEqual(sorted(NAMES));
  expect(sorted(await lines(found.map(({ uri }) => uri)).toArray({ storage }))).toEqual(sorted(NAMES));
});

test.each(FILE_SYSTEMS)('each split is read from its own file: %s', async (root) => {
  const { storage, folder } = await open(root);
  const data = lines(folder);
  const { splits } = await data.splits({ storage });
  expect(splits).toHaveLength(NAMES.length);
  const claimed: string[] = [];
  for await (const split of data.claimSplits({ storage })) {
    claimed.push(
      ...(await data
        .read({ storage, split })
        .next()
        .then(({ value }) => [value as string])),
    );
  }
  expect(sorted(claimed)).toEqual(sorted(NAMES));
  const again = await Promise.all(splits.map(({ uri }) => lines(uri).toArray({ storage })));
  expect(sorted(again.flat())).toEqual(sorted(NAMES));
});

test.each(FILE_SYSTEMS)('predict writes one result for each record of each file: %s', async (root) => {
  const { storage, folder } = await open(root);
  const output = fileUri(await folderWith());
  const cluster = {
    ...{ storage: both(storage), role: 'worker', index: 0, generation: 1, jobId: 'application_1_0001' },
    ...{ share: { index: 0, count: 1 }, outputUri: output, report: () => {} },
  } as unknown as Cluster;
  const report = await predict(cluster, lines(folder), (records) => records, { output: 'results' });
  const results = await lines(report.output.concat('/part-*')).toArray({ storage: local });
  expect(sorted(results.map((line) => JSON.parse(line) as string))).toEqual(sorted(NAMES));
});

/** Uses local storage for file:// URIs, and the other storage for all other URIs. */
function both(other: Storage): Storage {
  const of = (uri: string) => (uri.startsWith('file:') ? local : other);
  return {
    open: (uri, range) => of(uri).open(uri, range),
    read: (uri) => of(uri).read(uri),
    write: (uri, data, options) => of(uri).write(uri, data, options),
    stat: (uri) => of(uri).stat(uri),
    list: (uri, options) => of(uri).list(uri, options),
    rename: (from, to) => of(from).rename(from, to),
    remove: (uri) => of(uri).remove(uri),
    makeFolder: (uri) => of(uri).makeFolder(uri),
    close: () => {},
  };
}
