import { appendFile, mkdir, mkdtemp, readdir, readFile, rename, rm, truncate, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { TonyError } from '../../platform/errors.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import type { Entry } from '../../storage/storage.ts';
import { fileUri } from '../../storage/uri.ts';
import type { MirrorLimits } from './mirror.ts';
import { Mirror } from './mirror.ts';

/** A real storage that records its reads and can simulate an outage. */
class WatchedStorage extends FileStorage {
  readonly reads: string[] = [];
  away = false;
  strangeNames: string[] = [];

  override async open(uri: string, range: { offset?: number; length?: number } = {}): Promise<Readable> {
    this.reads.push(`${path.basename(uri)} ${range.offset}+${range.length}`);
    return super.open(uri, range);
  }

  override async list(uri: string): Promise<Entry[]> {
    if (this.away) {
      throw new TonyError('HDFS_UNREACHABLE', 'The NameNode is away.');
    }
    const entries = await super.list(uri);
    const [first] = entries;
    return [...this.strangeNames.flatMap((name) => (first === undefined ? [] : [{ ...first, name }])), ...entries];
  }
}

let root: string;
let storage: WatchedStorage;
let replaced: number;

beforeEach(async () => {
  root = await mkdtemp(path.join(os.tmpdir(), 'mirror-'));
  await mkdir(path.join(root, 'source', 'train'), { recursive: true });
  storage = new WatchedStorage();
  replaced = 0;
});

afterEach(() => rm(root, { recursive: true }));

function mirrorOf(limits: Partial<MirrorLimits> = {}): Mirror {
  return new Mirror({
    storage,
    source: fileUri(path.join(root, 'source')),
    folder: path.join(root, 'copy'),
    log: pino({ level: 'silent' }),
    onReplaced: () => replaced++,
    limits,
  });
}

const source = (name: string): string => path.join(root, 'source', name);
const copied = (name: string): Promise<string> => readFile(path.join(root, 'copy', name), 'utf8');
const EVENTS = 'train/events.out.tfevents.1';

describe('a mirror', () => {
  test('copies new files completely, and only the new bytes of grown files', async () => {
    const mirror = mirrorOf();
    await writeFile(source(EVENTS), 'a'.repeat(1_000));
    expect(await mirror.refresh()).toBe(true);
    expect(await copied(EVENTS)).toBe('a'.repeat(1_000));
    await mirror.refresh();
    expect(storage.reads).toEqual(['events.out.tfevents.1 0+1000']);
    await appendFile(source(EVENTS), 'bcd');
    await mirror.refresh();
    expect(await copied(EVENTS)).toBe(`${'a'.repeat(1_000)}bcd`);
    expect(storage.reads.at(-1)).toBe('events.out.tfevents.1 936+67');
    expect(replaced).toBe(0);
  });

  test('copies grown, replaced and truncated files correctly', async () => {
    const mirror = mirrorOf();
    await writeFile(source(EVENTS), 'one');
    await mirror.refresh();
    await writeFile(source('new'), 'one and two');
    await rename(source('new'), source(EVENTS));
    await mirror.refresh();
    expect([await copied(EVENTS), replaced]).toEqual(['one and two', 0]);
    await writeFile(source('new'), 'something else entirely');
    await rename(source('new'), source(EVENTS));
    await mirror.refresh();
    expect([await copied(EVENTS), replaced]).toEqual(['something else entirely', 1]);
    await truncate(source(EVENTS), 4);
    await mirror.refresh();
    expect([await copied(EVENTS), replaced]).toEqual(['some', 2]);
  });

  test('removes deleted files and folders, and replaces a folder with a file', async () => {
    const mirror = mirrorOf();
    await writeFile(source(EVENTS), 'x');
    await writeFile(source('events.out.tfevents.2'), 'y');
    await mirror.refresh();
    await rm(source('train'), { recursive: true });
    await mirror.refresh();
    expect(await readdir(path.join(root, 'copy'))).toEqual(['events.out.tfevents.2']);
    await writeFile(source('train'), 'z');
    await mirror.refresh();
    expect(await copied('train')).toBe('z');
    await rm(source('.'), { recursive: true });
    await mirror.refresh();
    expect(await readdir(path.join(root, 'copy'))).toEqual([]);
  });

  test('writes no file outside its folder, even if the storage lists a name that leads outside', async () => {
    const mirror = mirrorOf();
    await writeFile(source('tfevents'), 'x');
    storage.strangeNames = ['..', '../../escaped.tfevents', '/etc/tfevents', '', '.', 'a\0b'];
    expect(await mirror.refresh()).toBe(true);
    expect(await readdir(root)).toEqual(['copy', 'copy.incoming', 'source']);
    expect(await readdir(path.join(root, 'copy'))).toEqual(['tfevents']);
  });

  test('keeps its files and reports the problem while the storage is unreachable', async () => {
    const mirror = mirrorOf();
    await writeFile(source(EVENTS), 'x');
    await mirror.refresh();
    storage.away = true;
    expect(await mirror.refresh()).toBe(false);
    expect(mirror.problem).toBe('The summaries cannot be read at the moment: The NameNode is away.');
    expect(await copied(EVENTS)).toBe('x');
    storage.away = false;
    expect(await mirror.refresh()).toBe(true);
    expect(mirror.problem).toBe('');
  });

  test('accepts a source folder that does not exist yet', async () => {
    await rm(source('.'), { recursive: true });
    expect(await mirrorOf().refresh()).toBe(true);
  });

  test('respects its limit on disk space and keeps the files it has already copied', async () => {
    const mirror = mirrorOf({ bytes: 25 });
    await writeFile(source('tfevents.old'), 'o'.repeat(10));
    await mirror.refresh();
    await writeFile(source('tfevents.new1'), 'n'.repeat(10));
    await writeFile(source('tfevents.new2'), 'n'.repeat(10));
    await mirror.refresh();
    expect((await readdir(path.join(root, 'copy'))).length).toBe(2);
    expect(await copied('tfevents.old')).toBe('o'.repeat(10));
    expect(mirror.problem).toMatch(/^The summaries are larger than/);
  });

  test('skips large files without events, hidden files and unfinished files', async () => {
    const mirror = mirrorOf({ otherBytes: 5 });
    await writeFile(source('weights.bin'), 'x'.repeat(6));
    await writeFile(source('labels.tsv'), 'x');
    await writeFile(source('.hidden'), 'x');
    await writeFile(source('new._COPYING_'), 'x');
    await mirror.refresh();
    expect(await readdir(path.join(root, 'copy'))).toEqual(['labels.tsv']);
  });

  test('limits the number of files and reports the limit', async () => {
    for (let n = 0; n < 5; n++) {
      await writeFile(source(`tfevents.${n}`), 'x');
    }
    const mirror = mirrorOf({ files: 3 });
    await mirror.refresh();
    expect(mirror.problem).toBe('Only the first 3 files of the summaries are shown.');
  });

  test('copies existing files first, and then follows changes until it is closed', async () => {
    await writeFile(source(EVENTS), 'x');
    const mirror = mirrorOf();
    mirror.start();
    await mirror.initialCopy;
    expect(await copied(EVENTS)).toBe('x');
    await appendFile(source(EVENTS), 'y');
    await expect.poll(() => copied(EVENTS)).toBe('xy');
    await mirror.close();
  });
});
