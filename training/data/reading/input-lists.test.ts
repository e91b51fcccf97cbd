import { mkdir, readdir, rename, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Json } from '../../../platform/json-value.ts';
import { FileStorage } from '../../../storage/file-storage.ts';
import { fileUri } from '../../../storage/uri.ts';
import { DatasetBatchSource } from '../dataset-batch-source.ts';
import type { Dataset } from '../sources/dataset.ts';
import { labelledImages } from '../sources/image-files.ts';
import { csv, files, idx, lines } from '../sources/sources.ts';
import { folderWith } from '../testing/files.ts';
import { InputLists } from './input-lists.ts';
import { LocalSplits } from './split-assigner.ts';

const storage = new FileStorage();

/** Returns the lists of one process of a job. All processes of the job agree through the same folder. */
function processOf(folder: string, job = 'application_1_0001'): InputLists {
  return InputLists.create({ storage, folder: fileUri(folder), job });
}

const text = (name: string, count: number): string => Array.from({ length: count }, (_, index) => `${name}-${index}\n`).join('');

/** Three files with 60 lines, and the folder in which the job keeps its lists. */
async function threeFiles(): Promise<{ data: string; kept: string; old: string[] }> {
  const data = await folderWith({ 'f0.txt': text('f0', 30), 'f1.txt': text('f1', 20), 'f2.txt': text('f2', 10) });
  const old = ['f0', 'f1', 'f2'].flatMap((name, file) =>
    text(name, 30 - 10 * file)
      .trimEnd()
      .split('\n'),
  );
  return { data, kept: await folderWith(), old: old.sort() };
}

const newFile = (folder: string, name: string): Promise<void> => writeFile(join(folder, name), 'a-new-record-that-is-long\n'.repeat(30));

describe('a file that appears while a job runs', () => {
  test('belongs to no epoch, and each record of the old files goes to one rank', async () => {
    const { data, kept, old } = await threeFiles();
    const read = (rank: number) => lines(data).toArray({ storage, lists: processOf(kept), share: { index: rank, count: 3 } });
    const first = await read(0);
    await newFile(data, 'f9.txt');
    const rest = [await read(1), await read(2)];
    expect([...first, ...rest.flat()].sort()).toEqual(old);
  });

  const event = fc.oneof(
    { weight: 6, arbitrary: fc.record({ take: fc.integer({ min: 0, max: 2 }) }) },
    { weight: 2, arbitrary: fc.constant('file' as const) },
    { weight: 1, arbitrary: fc.constant('restart' as const) },
  );
  const KINDS: Readonly<Record<string, (folder: string) => Dataset<string>>> = {
    plain: (folder) => lines(folder),
    shuffled: (folder) => lines(folder).shuffle(7),
    concatenated: (folder) =>
      lines(`${folder}/f0*`)
        .concatenate(lines(`${folder}/f[1-9]*`))
        .shuffle(50),
    interleaved: (folder) => files(folder).interleave(({ uri }) => lines(uri)),
    dispatched: (folder) => lines(folder).dispatch(),
  };
  test.each(Object.keys(KINDS))('changes nothing, whenever it appears and whenever all ranks restart (%s)', async (kind) => {
    await fc.assert(
      fc.asyncProperty(fc.array(event, { maxLength: 40 }), async (events) => {
        const { data, kept, old } = await threeFiles();
        const dataset = (KINDS[kind] as (folder: string) => Dataset<string>)(data);
        // In the first epoch, the job lists the files of every source.
        expect((await dataset.toArray({ storage, lists: processOf(kept) })).sort()).toEqual(old);
        const used: string[] = [];
        let added = 0;
        let states: Json[] = [null, null, null];
        const start = async () => {
          const splits = new LocalSplits();
          const readers = states.map((state, index) =>
            dataset.read({ storage, lists: processOf(kept), splits: splits.reader(), share: { index, count: 3 }, state, states }),
          );
          // Splits are assigned only after all readers have registered.
          await Promise.all(readers.map((reader) => reader.hasNext()));
          return readers;
        };
        let ranks = await start();
        for (const each of events) {
          if (each === 'file') {
            await newFile(data, `f${['0-', '1-', '2-', '9-'][added % 4]}${added++}.txt`);
          } else if (each === 'restart') {
            // A checkpoint: what the ranks have used so far, and where they continue.
            states = ranks.map((rank) => rank.state());
            await Promise.all(ranks.map((rank) => rank.return()));
            ranks = await start();
          } else {
            const { done, value } = (await ranks[each.take]?.next()) ?? { done: true, value: undefined };
            used.push(...(done ? [] : [value as string]));
          }
        }
        for (const rank of ranks) {
          for await (const line of rank) {
            used.push(line);
          }
        }
        expect(used.sort()).toEqual(old);
      }),
      { numRuns: 25 },
    );
  });

  test('is reported once, by one rank, and belongs to the next epoch with refresh', async () => {
    const { data, kept, old } = await threeFiles();
    const notices: string[] = [];
    const epochOf = (lists: InputLists, epoch: number, refresh: 'never' | 'epoch') =>
      lines(data, { refresh }).toArray({ storage, lists, epoch, onNotice: (message) => notices.push(message) });
    const lists = processOf(kept);
    expect((await epochOf(lists, 0, 'never')).sort()).toEqual(old);
    expect((await epochOf(lists, 0, 'epoch')).sort()).toEqual(old);
    await newFile(data, 'f9.txt');
    expect((await epochOf(lists, 1, 'never')).sort()).toEqual(old);
    expect((await epochOf(processOf(kept), 2, 'never')).sort()).toEqual(old);
    expect((await epochOf(lists, 3, 'never')).sort()).toEqual(old);
    // A process that resumes in the epoch reads the epoch's list.
    expect((await epochOf(processOf(kept), 0, 'epoch')).sort()).toEqual(old);
    expect(await epochOf(processOf(kept), 1, 'epoch')).toHaveLength(90);
    expect(notices).toEqual([expect.stringContaining('f9.txt was added'), expect.stringContaining('f9.txt was added')]);
  });

  test('does not change the numbers of the classes of images', async () => {
    const data = await folderWith();
    const kept = await folderWith();
    for (const name of ['cats', 'dogs']) {
      await mkdir(join(data, name));
      await writeFile(join(data, name, '1.png'), name);
    }
    const classes = async () => (await labelledImages({ storage, lists: processOf(kept) }, `${data}/*`)).classNames;
    expect(await classes()).toEqual(['cats', 'dogs']);
    await mkdir(join(data, 'birds'));
    await writeFile(join(data, 'birds', '1.png'), 'b');
    expect(await classes()).toEqual(['cats', 'dogs']);
  });

  test('does not disturb pairs of files', async () => {
    const column = (...values: number[]) => Buffer.from([0, 0, 8, 1, 0, 0, 0, values.length, ...values]);
    const data = await folderWith({ 'image-0': column(1, 2), 'label-0': column(3, 4) });
    const kept = await folderWith();
    const read = () => idx({ image: `${data}/image-*`, label: `${data}/label-*` }).toArray({ storage, lists: processOf(kept) });
    const before = await read();
    await writeFile(join(data, 'image-1'), column(5));
    expect(await read()).toEqual(before);
  });

  test('belongs to no split', async () => {
    const { data, kept } = await threeFiles();
    const count = async () => (await lines(data).splits({ storage, lists: processOf(kept) })).fingerprint;
    const before = await count();
    await newFile(data, 'f9.txt');
    expect(await count()).toBe(before);
  });
});

describe('a checkpoint', () => {
  const peers = { rank: 0, worldSize: 1, stepsTogether: true, sum: async () => {}, gather: async (bytes: Uint8Array) => [bytes] };
  const source = (data: string, lists: InputLists, position: Json) =>
    new DatasetBatchSource(
      lines(`${data}/f0*`)
        .concatenate(lines(`${data}/f[1-9]*`))
        .batch(8),
      {
        ...{ tf: {} as never, peers, storage, seed: 1, lists, position, onNotice: () => {} },
        countExamples: (element) => (element as string[]).length,
      },
    );

  test('lets a later job finish the epoch with the list of the earlier job', async () => {
    const { data, kept, old } = await threeFiles();
    const used: string[] = [];
    const earlier = source(data, processOf(kept), null);
    // The sixth batch belongs to the second dataset, which has new files by then.
    for (let step = 0; step < 6; step++) {
      used.push(...((await earlier.take()).element as string[]));
    }
    const position = JSON.parse(JSON.stringify(await earlier.position())) as Json;
    await earlier.close();
    await newFile(data, 'f1-5.txt');
    await newFile(data, 'f0-5.txt');
    const later = source(data, processOf(kept, 'application_1_0002'), position);
    for (let ended = false; !ended; ) {
      const taken = await later.take();
      used.push(...(taken.element as string[]));
      ended = taken.ended;
    }
    // In the next epoch, the phase still uses its list.
    expect(await later.position()).toMatchObject({ pass: 1, lists: (position as { lists: Json }).lists });
    expect(used.sort()).toEqual(old);
  });

  test('is useless without its list, and says so', async () => {
    const { data, kept } = await threeFiles();
    const earlier = source(data, processOf(kept), null);
    await earlier.take();
    const position = await earlier.position();
    await earlier.close();
    await rm(kept, { recursive: true });
    await expect(source(data, processOf(kept), position).take()).rejects.toMatchObject({
      code: 'DATA_INVALID',
      message: expect.stringContaining('have changed since the checkpoint'),
    });
  });
});

describe('a listed file', () => {
  const cases: readonly [name: string, code: string, change: (path: string) => Promise<void>][] = [
    ['was removed', 'NOT_FOUND', (path) => rm(path)],
    ['was renamed', 'NOT_FOUND', (path) => rename(path, `${path}x`)],
    ['became longer', 'DATA_INVALID', (path) => writeFile(path, 'more\n', { flag: 'a' })],
    ['became shorter', 'DATA_INVALID', (path) => writeFile(path, 'x\n')],
    [
      'was rewritten with the same size',
      'DATA_INVALID',
      async (path) => {
        const { size } = await stat(path);
        await writeFile(path, 'y'.repeat(size));
        await utimes(path, new Date(), new Date(Date.now() + 5_000));
      },
    ],
  ];
  test.each(cases)('that %s is an error that names it, in the next epoch and within an epoch', async (_, code, change) => {
    const { data, kept } = await threeFiles();
    const lists = processOf(kept);
    await lines(data).toArray({ storage, lists });
    const name = expect.stringContaining('f1.txt has');
    const reader = lines(data).read({ storage, lists, epoch: 1 });
    await reader.next();
    await change(join(data, 'f1.txt'));
    await expect(lines(data).toArray({ storage, lists, epoch: 2 })).rejects.toMatchObject({ code, message: name });
    const rest = async () => {
      for await (const _line of reader) {
        // Reads the other files.
      }
    };
    await expect(rest()).rejects.toMatchObject({ code, message: name });
    const alone = csv(join(data, 'f2.txt'), { hasHeader: false, columnNames: ['line'] });
    expect(await alone.toArray({ storage, lists: processOf(kept) })).toHaveLength(10);
  });

  test('that is rewritten in place while it is read is an error', async () => {
    const line = `${'a'.repeat(99)}\n`;
    const data = await folderWith({ 'a.txt': line.repeat(30_000) });
    const reader = lines(join(data, 'a.txt')).read({ storage });
    await reader.next();
    await writeFile(join(data, 'a.txt'), line.replaceAll('a', 'b').repeat(30_000), { flag: 'r+' });
    await utimes(join(data, 'a.txt'), new Date(), new Date(Date.now() + 5_000));
    const rest = async () => {
      for await (const _ of reader) {
        // Reads to the end of the file.
      }
    };
    await expect(rest()).rejects.toMatchObject({ code: 'DATA_INVALID', message: expect.stringContaining('a.txt has changed') });
  });

  test('of another node may have another time but not another size', async () => {
    const { data, kept } = await threeFiles();
    const onNode = () => InputLists.create({ storage, folder: fileUri(kept), job: 'j' }, { comparesLocalTimes: false });
    await lines(data).toArray({ storage, lists: onNode() });
    await utimes(join(data, 'f1.txt'), new Date(0), new Date(0));
    expect(await lines(data).toArray({ storage, lists: onNode() })).toHaveLength(60);
    await writeFile(join(data, 'f1.txt'), 'x\n');
    await expect(lines(data).toArray({ storage, lists: onNode() })).rejects.toMatchObject({ code: 'DATA_INVALID' });
  });
});

describe('the files of lists', () => {
  test('are few and small, even with 100,000 input files and hundreds of inner datasets', async () => {
    const { kept } = await threeFiles();
    const lists = processOf(kept);
    const columns = [
      Array.from({ length: 100_000 }, (_, index) => ({
        uri: `hdfs://nn/data/part-${index}`,
        size: index,
        modifiedAt: 1_796_000_000_000 + index,
      })),
    ];
    await lists.take(['many'], null, async () => columns);
    expect((await processOf(kept).take(['many'], null, () => Promise.reject(new Error('listed twice')))).columns).toEqual(columns);
    const data = await folderWith(Object.fromEntries(Array.from({ length: 300 }, (_, index) => [`${index}.txt`, 'x\n'])));
    expect(
      await files(data)
        .interleave(({ uri }) => lines(uri))
        .toArray({ storage, lists }),
    ).toHaveLength(300);
    const names = await readdir(join(kept, 'application_1_0001'));
    expect(names).toHaveLength(2);
    const sizes = await Promise.all(names.map(async (name) => (await stat(join(kept, 'application_1_0001', name))).size));
    expect(Math.max(...sizes)).toBeLessThan(1024 * 1024);
  });

  test('are written by one process, and read by all that were slower', async () => {
    const { data, kept } = await threeFiles();
    const all = await Promise.all(Array.from({ length: 8 }, () => lines(data).splits({ storage, lists: processOf(kept) })));
    expect(new Set(all.map(({ fingerprint }) => fingerprint)).size).toBe(1);
    expect(await readdir(join(kept, 'application_1_0001'))).toHaveLength(1);
  });
});

describe('a folder', () => {
  test('with a link to nothing is an error, unless the link is hidden or the pattern does not match it', async () => {
    const { data } = await threeFiles();
    await symlink('/nowhere', join(data, '.#lock'));
    expect(await lines(data).toArray({ storage })).toHaveLength(60);
    await symlink('/nowhere', join(data, 'g.txt'));
    await expect(lines(data).toArray({ storage })).rejects.toMatchObject({
      code: 'DATA_INVALID',
      message: expect.stringContaining('g.txt'),
    });
    expect(await lines(`${data}/f*`).toArray({ storage })).toHaveLength(60);
  });

  test('with a name that is not UTF-8 is an error', async () => {
    const { data } = await threeFiles();
    await writeFile(Buffer.concat([Buffer.from(`${data}/caf`), Buffer.from([0xe9])]), 'x\n');
    await expect(lines(data).toArray({ storage })).rejects.toMatchObject({
      code: 'DATA_INVALID',
      message: expect.stringContaining('not valid UTF-8'),
    });
  });
});

test('a folder tells about the folders in it, whose files it does not stand for', async () => {
  const data = await folderWith({ 'f.txt': 'a\n' });
  const notices: string[] = [];
  const read = (names: string | string[]) =>
    lines(names).toArray({ storage, lists: InputLists.ofJob(), onNotice: (message) => notices.push(message) });
  await mkdir(join(data, '_temporary'));
  expect(await read(data)).toEqual(['a']);
  expect(notices).toEqual([]);
  await mkdir(join(data, 'year=2020'));
  await writeFile(join(data, 'year=2020', 'g.txt'), 'b\n');
  expect(await read(`${data}/`)).toEqual(['a']);
  expect(notices).toEqual([
    expect.stringMatching(/ contains 1 folder, such as year=2020, whose files the dataset does not read\. Add .*\/\*,/),
  ]);
  expect(await read(`${data}/*`)).toEqual(['a', 'b']);
  await rm(join(data, 'f.txt'));
  await expect(read([data])).rejects.toThrow(/^there is no file directly in .* contains 1 folder, such as year=2020/);
});
