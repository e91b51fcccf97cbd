import { spawnSync } from 'node:child_process';
import { mkdir, readdir, readFile, rename, truncate, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Json } from '../../../platform/json-value.ts';
import { FileStorage } from '../../../storage/file-storage.ts';
import { listFiles } from '../reading/file-set.ts';
import type { Dataset } from '../sources/dataset.ts';
import { binaryFiles, lines, tfRecords } from '../sources/sources.ts';
import { folderWith, tfRecordFile } from '../testing/files.ts';
import { LocalBlocks, type LocalCopyOptions } from './local-blocks.ts';
import { BLOCK_BYTES, withLocalCopies } from './local-copy.ts';

const numbers = (count: number) => Array.from({ length: count }, (_, index) => index);

class WatchedStorage extends FileStorage {
  bytes = 0;
  opened: string[] = [];

  override async open(uri: string, range: { offset?: number; length?: number } = {}): Promise<Readable> {
    this.opened.push(uri.slice(uri.lastIndexOf('/') + 1));
    const stream = await super.open(uri, range);
    stream.on('data', (piece: Buffer) => {
      this.bytes += piece.length;
    });
    stream.pause();
    return stream;
  }
}

const records = (file: number) => numbers(250).map((index) => `${file}/${index}`.padEnd(10_000, 'x'));
const text = (file: number) => `${records(file).join('\n')}\n`;

async function dataFolder(): Promise<string> {
  return await folderWith(
    Object.fromEntries(
      numbers(4).flatMap((file): [string, string | Buffer][] => [
        [`r${file}`, tfRecordFile(records(file))],
        [`z${file}.gz`, gzipSync(tfRecordFile(records(file)), { level: 0 })],
        [`t${file}`, text(file)],
      ]),
    ),
  );
}

const fail = (message: string): never => {
  throw new Error(message);
};

/** Allows the tests to run on machines with little free disk space. */
const ANYWHERE = { keepFreeBytes: 0 };

const KINDS: Readonly<Record<string, (folder: string, localCopy: LocalCopyOptions) => Dataset<string>>> = {
  records: (folder, localCopy) => tfRecords(`${folder}/r*`, { localCopy: { ...ANYWHERE, ...localCopy } }).map(String),
  'compressed records': (folder, localCopy) => tfRecords(`${folder}/z*`, { localCopy: { ...ANYWHERE, ...localCopy } }).map(String),
  'parts of text': (folder, localCopy) => lines(`${folder}/t*`, { localCopy: { ...ANYWHERE, ...localCopy }, splitBytes: 700_000 }),
  'whole files': (folder, localCopy) =>
    binaryFiles(`${folder}/t*`, { localCopy: { ...ANYWHERE, ...localCopy } }).flatMap(({ bytes }) => String(bytes).trimEnd().split('\n')),
};

describe.each(Object.entries(KINDS))('local copies of %s', (kind, open) => {
  test("local copies contain only the reader's own share, and serve later epochs without reading storage again", async () => {
    const folder = await dataFolder();
    const shares = await Promise.all(
      numbers(3).map(async (index) => {
        const storage = new WatchedStorage();
        const dataset = open(folder, { folder: await folderWith() }).shuffle(50);
        const read = (epoch: number) => dataset.toArray({ storage, share: { index, count: 3 }, epoch });
        const first = await read(0);
        const second = await read(1);
        expect(second).not.toEqual(first);
        expect(second.toSorted()).toEqual(first.toSorted());
        expect(await read(0)).toEqual(first);
        for (let epoch = 2; epoch < 6; epoch++) {
          await read(epoch);
        }
        // Readers of file parts fetch whole blocks at the boundaries of their parts. Whole files have no such boundaries.
        const borders = kind === 'parts of text' ? 2 * 4 * BLOCK_BYTES : 0;
        expect(storage.bytes).toBeLessThan(first.length * 10_100 + borders);
        return first;
      }),
    );
    expect(shares.flat().sort()).toEqual(numbers(4).flatMap(records).sort());
  });

  test('local copies serve a reader that resumes mid-epoch, and the readers of a different number of ranks', async () => {
    const folder = await dataFolder();
    const place = { folder: await folderWith() };
    const storage = new FileStorage();
    const all = await open(folder, place).toArray({ storage, share: { index: 0, count: 2 } });
    const reader = open(folder, place).read({ storage, share: { index: 0, count: 2 } });
    const taken: string[] = [];
    for await (const element of reader) {
      if (taken.push(element) === 300) {
        break;
      }
    }
    const rest = await open(folder, place).toArray({ storage, state: JSON.parse(JSON.stringify(reader.state())) as Json });
    expect([...taken, ...rest]).toEqual(all);
    const shares = await Promise.all(numbers(3).map((index) => open(folder, place).toArray({ storage, share: { index, count: 3 } })));
    expect(shares.flat().sort()).toEqual(numbers(4).flatMap(records).sort());
  });
});

describe('local copies', () => {
  const read = async (folder: string, localCopy: LocalCopyOptions, storage = new WatchedStorage(), notices: string[] = []) => {
    const all = await tfRecords(`${folder}/r*`, { localCopy: { ...ANYWHERE, ...localCopy } })
      .map(String)
      .toArray({ storage, onNotice: (message) => notices.push(message) });
    expect(all).toEqual(numbers(4).flatMap(records));
    return { notices, bytes: storage.bytes };
  };

  test('local copies respect maxBytes and keepFreeBytes', async () => {
    const folder = await dataFolder();
    const place = await folderWith();
    const { notices, bytes } = await read(folder, { folder: place, maxBytes: 3 * BLOCK_BYTES });
    expect(notices).toEqual([expect.stringMatching(/no more data is copied.*maxBytes/)]);
    const again = await read(folder, { folder: place, maxBytes: 3 * BLOCK_BYTES });
    expect(again.notices).toEqual([]);
    const kept = (await readFile(join(place, '.tony-ts-copies', 'blocks'))).length;
    expect(kept).toBeGreaterThan(2 * BLOCK_BYTES);
    expect(kept).toBeLessThanOrEqual(3 * BLOCK_BYTES);
    expect(again.bytes).toBeGreaterThanOrEqual(bytes - kept - 2 * BLOCK_BYTES);
    expect(again.bytes).toBeLessThan(bytes - BLOCK_BYTES);
    const full = await read(folder, { folder: await folderWith(), keepFreeBytes: Number.MAX_SAFE_INTEGER });
    expect(full.notices).toEqual([expect.stringMatching(/free on the disk/)]);
    const none = await read(folder, { folder: join(folder, 'r0') });
    expect(none.notices[0]).toMatch(/no data is copied/);
  });

  test('local copies are replaced from storage if they are damaged', async () => {
    const folder = await dataFolder();
    const place = await folderWith();
    await read(folder, { folder: place });
    const blocks = join(place, '.tony-ts-copies', 'blocks');
    const bytes = await readFile(blocks);
    bytes[BLOCK_BYTES + 5] = 77;
    await writeFile(blocks, bytes);
    await truncate(blocks, bytes.length - 10);
    const { notices, bytes: again } = await read(folder, { folder: place });
    expect(notices).toHaveLength(2);
    expect(again).toBeGreaterThan(BLOCK_BYTES);
    expect(again).toBeLessThan(2 * BLOCK_BYTES);
    expect((await read(folder, { folder: place })).bytes).toBe(0);
  });

  test('local copies are not used once their file has been replaced', async () => {
    const folder = await dataFolder();
    const place = await folderWith();
    await read(folder, { folder: place });
    const other = `${folder}/other`;
    await writeFile(other, tfRecordFile(records(1).map((record) => record.replace('1/', '9/'))));
    await rename(other, `${folder}/r1`);
    await utimes(`${folder}/r1`, 1, 1);
    const all = await tfRecords(`${folder}/r*`, { localCopy: { ...ANYWHERE, folder: place } })
      .map(String)
      .toArray({ storage: new FileStorage() });
    expect(all.filter((record) => record.startsWith('9/'))).toHaveLength(250);
  });

  test('local copies are reused by the next program in the folder if the previous program was killed, but not while it still runs', async () => {
    const folder = await folderWith();
    const first = await LocalBlocks.open({ ...ANYWHERE, folder });
    await first.put('one', Buffer.from('1'.repeat(100)), fail);
    await first.put('two', Buffer.from('2'.repeat(100)), fail);
    const beside = await LocalBlocks.open({ ...ANYWHERE, folder });
    expect(beside.has('one')).toBe(false);
    const { pid } = spawnSync('true');
    await writeFile(join(folder, '.tony-ts-copies', 'owner'), `${pid}`);
    await writeFile(join(folder, '.tony-ts-copies', 'index'), '["three",200,1', { flag: 'a' });
    const next = await LocalBlocks.open({ ...ANYWHERE, folder });
    expect(String(await next.get('two', fail))).toBe('2'.repeat(100));
    await next.put('four', Buffer.from('4'), fail);
    expect(String(await next.get('four', fail))).toBe('4');
    expect(String(await next.get('one', fail))).toBe('1'.repeat(100));
    expect((await readdir(folder)).length).toBe(2);
  });

  test('local copies are reused by only one of two datasets that open at the same time', async () => {
    const { pid: dead } = spawnSync('true');
    for (let round = 0; round < 20; round++) {
      const folder = await folderWith();
      await mkdir(join(folder, '.tony-ts-copies'));
      await writeFile(join(folder, '.tony-ts-copies', 'owner'), `${dead}`);
      const both = await Promise.all([LocalBlocks.open({ ...ANYWHERE, folder }), LocalBlocks.open({ ...ANYWHERE, folder })]);
      const bytes = both.map((_, at) => Buffer.from(`block of ${at}`));
      await Promise.all(both.map((blocks, at) => blocks.put('block', bytes[at] as Buffer, fail)));
      expect(await Promise.all(both.map((blocks) => blocks.get('block', fail)))).toEqual(bytes);
    }
  });

  test('local copies return any part of a file unchanged', async () => {
    const content = Buffer.from(Uint8Array.from({ length: 2.5 * BLOCK_BYTES }, (_, index) => (index * 31) ^ (index >> 8)));
    const folder = await folderWith({ file: content });
    const storage = new FileStorage();
    const files = await listFiles(storage, `${folder}/file`);
    const uri = files[0]?.uri as string;
    const part = fc.record({
      offset: fc.nat(content.length),
      length: fc.nat(content.length),
      stopAfter: fc.option(fc.nat(content.length)),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(part, { maxLength: 5 }), fc.nat(4), async (parts, blocks) => {
        const options = { ...ANYWHERE, folder: await folderWith(), maxBytes: blocks * BLOCK_BYTES };
        const copying = await withLocalCopies(storage, files, options, () => {});
        for (const { offset, length, stopAfter } of parts) {
          const pieces: Buffer[] = [];
          let count = 0;
          for await (const piece of (await copying.open(uri, { offset, length })) as AsyncIterable<Buffer>) {
            pieces.push(piece);
            count += piece.length;
            if (stopAfter !== null && count >= stopAfter) {
              break;
            }
          }
          const expected = content.subarray(offset, offset + length);
          const found = Buffer.concat(pieces);
          expect(found.equals(stopAfter === null ? expected : expected.subarray(0, found.length))).toBe(true);
          if (stopAfter === null) {
            expect(found.length).toBe(expected.length);
          }
        }
      }),
      { numRuns: 30 },
    );
  });
});
