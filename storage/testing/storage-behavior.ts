import { Readable } from 'node:stream';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Storage } from '../storage.ts';
import { temporaryName } from '../temporary-name.ts';
import { joinUri, nameOf, parentUri } from '../uri.ts';

/**
 * Defines the tests that every storage must pass. `open` returns the storage and the URI of an empty folder. For an object store, the tests
 * do not expect permissions or atomic folder operations, and allow a file below another file.
 */
export function describeStorage(
  kind: string,
  open: () => Promise<{ storage: Storage; root: string; close: () => Promise<void> }>,
  { isObjectStore = false }: { readonly isObjectStore?: boolean } = {},
): void {
  describe(`${kind} storage`, () => {
    let storage: Storage;
    let root: string;
    let close: () => Promise<void>;
    let folders = 0;
    beforeAll(async () => {
      ({ storage, root, close } = await open());
    });
    afterAll(async () => {
      await close();
    });
    const fresh = (): string => {
      folders += 1;
      return joinUri(root, `folder-${folders}`);
    };
    const names = async (uri: string): Promise<string[]> => (await storage.list(uri)).map((entry) => entry.name);
    const text = async (uri: string): Promise<string> => (await storage.read(uri)).toString();
    const bytesOf = async (stream: Readable): Promise<Buffer> => Buffer.concat(await stream.toArray());

    test('writes a whole file, with its parent folders, permission and times', async () => {
      const uri = joinUri(fresh(), 'a', 'b.txt');
      const before = Date.now();
      expect(await storage.stat(uri)).toBeNull();
      expect(await storage.write(uri, Buffer.from('hello'), { permission: 0o600 })).toBe(true);
      expect(await text(uri)).toBe('hello');
      const entry = await storage.stat(uri);
      expect(entry).toMatchObject({ uri, name: 'b.txt', type: 'file', size: 5, permission: isObjectStore ? 0o644 : 0o600 });
      expect(entry?.owner).toMatch(isObjectStore ? /^$/ : /./);
      expect(Math.abs((entry?.modifiedAt ?? 0) - before)).toBeLessThan(60_000);
      expect(await storage.stat(parentUri(uri))).toMatchObject({ type: 'folder', size: 0, name: 'a' });
      await storage.write(uri, Buffer.from('again'));
      expect(await storage.stat(uri)).toMatchObject({ permission: 0o644 });
      expect(await text(uri)).toBe('again');
    });

    test('writes a stream of chunks of any size, and reports progress', async () => {
      const uri = joinUri(fresh(), 'stream');
      const chunks = [1, 0, 70_000, 1_048_576, 3_000_000, 5].map((size, index) => Buffer.alloc(size, index + 1));
      const seen: number[] = [];
      await storage.write(uri, Readable.from(chunks), { onProgress: (bytes) => seen.push(bytes) });
      const whole = Buffer.concat(chunks);
      expect((await storage.read(uri)).equals(whole)).toBe(true);
      expect(seen.at(-1)).toBe(whole.length);
      expect(seen).toEqual([...seen].sort((a, b) => a - b));
      await storage.write(uri, Readable.from([]));
      expect((await storage.read(uri)).length).toBe(0);
    });

    test('reads ranges', async () => {
      const uri = joinUri(fresh(), 'range');
      const data = Buffer.from(Array.from({ length: 300_000 }, (_, index) => index % 251));
      await storage.write(uri, data);
      const range = fc.record({ offset: fc.nat(data.length + 10), length: fc.nat(data.length + 10) }, { requiredKeys: [] });
      await fc.assert(
        fc.asyncProperty(range, async (wanted) => {
          const bytes = await bytesOf(await storage.open(uri, wanted));
          const start = wanted.offset ?? 0;
          expect(bytes.equals(data.subarray(start, start + (wanted.length ?? data.length)))).toBe(true);
        }),
        { numRuns: 25 },
      );
    });

    test('keeps the previous file when a write fails, and leaves no other file behind', async () => {
      const folder = fresh();
      const uri = joinUri(folder, 'file');
      await storage.write(uri, Buffer.from('old'));
      async function* failing(): AsyncIterable<Buffer> {
        yield Buffer.alloc(2_500_000);
        throw new Error('the source ran dry');
      }
      await expect(storage.write(uri, failing())).rejects.toThrow('the source ran dry');
      expect(await text(uri)).toBe('old');
      expect(await names(folder)).toEqual(['file']);
      expect(await storage.remove(joinUri(folder, 'file'))).toBe(true);
    });

    test('does not show a file before it is complete', async () => {
      const folder = fresh();
      const uri = joinUri(folder, 'file');
      let duringWrite: unknown;
      async function* slow(): AsyncIterable<Buffer> {
        yield Buffer.alloc(1_500_000);
        duringWrite = [await storage.stat(uri), await names(folder)];
        yield Buffer.from('end');
      }
      await storage.write(uri, slow());
      expect(duringWrite).toEqual([null, []]);
      expect(await names(folder)).toEqual(['file']);
    });

    test('does not recreate a folder that is removed during a write, if makeParents is false', async () => {
      const folder = fresh();
      const uri = joinUri(folder, 'file');
      const options = { makeParents: false };
      await expect(storage.write(uri, Buffer.from('x'), options)).rejects.toMatchObject({ code: 'NOT_FOUND' });
      expect(await storage.stat(folder)).toBeNull();
      await storage.makeFolder(folder);
      expect(await storage.write(uri, Buffer.from('x'), options)).toBe(true);
      async function* slow(): AsyncIterable<Buffer> {
        yield Buffer.alloc(1_500_000);
        if (!isObjectStore) {
          await expect.poll(() => storage.list(folder, { raw: true })).toHaveLength(2);
        }
        await storage.remove(folder);
        yield Buffer.from('end');
      }
      await expect(storage.write(uri, slow(), options)).rejects.toMatchObject({ name: 'TonyError' });
      expect(await storage.stat(folder)).toBeNull();
    });

    test('lets exactly one of many exclusive writers succeed', async () => {
      const folder = fresh();
      const uri = joinUri(folder, 'final.json');
      const writers = Array.from({ length: 8 }, (_, index) => `writer ${index}`);
      const wins = await Promise.all(writers.map((writer) => storage.write(uri, Buffer.from(writer), { ifAbsent: true })));
      expect(wins.filter(Boolean)).toHaveLength(1);
      expect(await text(uri)).toBe(writers[wins.indexOf(true)]);
      expect(await storage.write(uri, Buffer.from('late'), { ifAbsent: true })).toBe(false);
      expect(await names(folder)).toEqual(['final.json']);
      expect(await storage.write(folder, Buffer.from('x'), { ifAbsent: true })).toBe(false);
      expect(await names(folder)).toEqual(['final.json']);
    });

    test('renames files and folders, but never over an existing one', async () => {
      const folder = fresh();
      const [a, b, c] = [joinUri(folder, 'a'), joinUri(folder, 'b'), joinUri(folder, 'deep', 'er', 'c')];
      await storage.write(a, Buffer.from('a'));
      await storage.write(b, Buffer.from('b'));
      expect(await storage.rename(a, b)).toBe(false);
      expect([await text(a), await text(b)]).toEqual(['a', 'b']);
      expect(await storage.rename(a, c)).toBe(true);
      expect([await storage.stat(a), await text(c)]).toEqual([null, 'a']);
      expect(await storage.rename(a, joinUri(folder, 'nowhere'))).toBe(false);
      expect(await storage.rename(a, joinUri(folder, 'not', 'made'))).toBe(false);
      expect(await storage.stat(joinUri(folder, 'not'))).toBeNull();

      const [from, to] = [joinUri(folder, 'step.tmp'), joinUri(folder, 'step-1')];
      await storage.write(joinUri(from, 'weights'), Buffer.from('w'));
      if (isObjectStore) {
        await expect(storage.rename(from, to)).rejects.toMatchObject({ code: 'STORAGE_DENIED' });
        return;
      }
      expect(await storage.rename(from, to)).toBe(true);
      expect(await names(to)).toEqual(['weights']);
      await storage.write(joinUri(from, 'weights'), Buffer.from('other'));
      expect(await storage.rename(from, to)).toBe(false);
      expect(await text(joinUri(to, 'weights'))).toBe('w');
      expect(await storage.rename(b, to)).toBe(false);
      expect(await names(to)).toEqual(['weights']);
    });

    test('lets exactly one of concurrent renames to the same name succeed', async () => {
      const folder = fresh();
      const sources = Array.from({ length: 6 }, (_, index) => joinUri(folder, `from-${index}`));
      // An object store can rename only one object at a time.
      const dataOf = (uri: string): string => (isObjectStore ? uri : joinUri(uri, 'data'));
      for (const source of sources) {
        await storage.write(dataOf(source), Buffer.from(source));
      }
      const target = joinUri(folder, 'to');
      const wins = await Promise.all(sources.map((source) => storage.rename(source, target)));
      expect(wins.filter(Boolean)).toHaveLength(1);
      expect(await text(dataOf(target))).toBe(sources[wins.indexOf(true)]);
      expect(await names(folder)).toHaveLength(sources.length);
    });

    test('lists entries by name, and returns an empty list for a missing folder', async () => {
      const folder = fresh();
      expect(await storage.list(folder)).toEqual([]);
      await storage.makeFolder(joinUri(folder, 'b'));
      for (const name of ['c', 'a', 'B', 'a b%41 é?#;&=+', '10', '9']) {
        await storage.write(joinUri(folder, name), Buffer.from(name));
      }
      const listed = await storage.list(folder);
      expect(listed.map((entry) => entry.name)).toEqual(['10', '9', 'B', 'a', 'a b%41 é?#;&=+', 'b', 'c']);
      for (const entry of listed.filter(({ type }) => type === 'file')) {
        expect([nameOf(entry.uri), await text(entry.uri)]).toEqual([entry.name, entry.name]);
      }
      expect((await storage.list(folder, { most: 3 })).map(({ name }) => name)).toEqual(['10', '9', 'B']);
      expect(await storage.list(folder, { most: 100 })).toEqual(listed);
      expect(await storage.list(fresh(), { most: 3 })).toEqual([]);
      expect(await storage.list(joinUri(folder, 'a'))).toEqual([]);
      expect(await storage.list(joinUri(folder, 'a', 'below'))).toEqual([]);
    });

    test('includes unfinished files in a raw list', async () => {
      const folder = fresh();
      const left = temporaryName('a');
      for (const name of ['a', left]) {
        await storage.write(joinUri(folder, name), Buffer.from(name));
      }
      expect(await names(folder)).toEqual(['a']);
      expect((await storage.list(folder, { raw: true })).map(({ name }) => name)).toEqual([left, 'a']);
    });

    test('removes files, and folders with their content', async () => {
      const folder = fresh();
      await storage.write(joinUri(folder, 'x', 'y', 'z'), Buffer.from('z'));
      expect(await storage.remove(joinUri(folder, 'none'))).toBe(false);
      if (!isObjectStore) {
        expect(await storage.remove(joinUri(folder, 'x', 'y', 'z', 'below'))).toBe(false);
      }
      expect(await storage.remove(folder)).toBe(true);
      expect(await storage.remove(folder)).toBe(false);
      expect(await storage.stat(folder)).toBeNull();
      await expect(storage.remove(root.replace(/^(\w+:\/\/[^/]*).*$/, '$1/'))).rejects.toMatchObject({ code: 'STORAGE_DENIED' });
    });

    test.skipIf(isObjectStore)('removes a folder in one step while other processes write into it', async () => {
      const folder = fresh();
      const removed: boolean[] = [];
      let isOver = false;
      const write = async (writer: number): Promise<void> => {
        while (!isOver) {
          for (const file of ['a', 'b', 'c']) {
            try {
              await storage.write(joinUri(folder, `writer-${writer}`, file), Buffer.from(file));
            } catch (error) {
              // The folder is removed before the writer renames the temporary file.
              expect(error).toMatchObject({ name: 'TonyError' });
            }
          }
        }
      };
      const remove = async (): Promise<void> => {
        try {
          while (removed.filter(Boolean).length < 30) {
            removed.push(await storage.remove(folder));
          }
        } finally {
          isOver = true;
        }
      };
      await Promise.all([remove(), remove(), ...[0, 1, 2, 3].map(write)]);
      await storage.remove(folder);
      expect(await storage.stat(folder)).toBeNull();
    });

    test('makes folders, and accepts existing ones', async () => {
      const folder = joinUri(fresh(), 'a', 'b');
      await storage.makeFolder(folder, 0o700);
      await storage.makeFolder(folder);
      expect(await storage.stat(folder)).toMatchObject({ type: 'folder', permission: isObjectStore ? 0o755 : 0o700 });
      await storage.write(joinUri(folder, 'file'), Buffer.from('x'));
      await expect(storage.makeFolder(joinUri(folder, 'file'))).rejects.toMatchObject({ code: 'ALREADY_EXISTS' });
    });

    test('fails with specific codes for missing files and existing names', async () => {
      const folder = fresh();
      await storage.write(joinUri(folder, 'file'), Buffer.from('x'));
      for (const uri of [joinUri(folder, 'none'), ...(isObjectStore ? [] : [joinUri(folder, 'file', 'below')]), folder]) {
        await expect(storage.read(uri)).rejects.toMatchObject({ code: 'NOT_FOUND', message: expect.stringContaining(nameOf(uri)) });
        await expect(storage.open(uri)).rejects.toMatchObject({ code: 'NOT_FOUND' });
      }
      if (!isObjectStore) {
        expect(await storage.stat(joinUri(folder, 'file', 'below'))).toBeNull();
        await expect(storage.write(folder, Buffer.from('x'))).rejects.toMatchObject({ code: 'ALREADY_EXISTS' });
        await expect(storage.write(joinUri(folder, 'file', 'below'), Buffer.from('x'))).rejects.toMatchObject({ name: 'TonyError' });
      }
      for (const uri of ['relative/path', 'gs://bucket/x', '/plain/path', `${folder}/../up`]) {
        await expect(storage.read(uri)).rejects.toMatchObject({ code: 'STORAGE_DENIED' });
      }
      expect(await names(folder)).toEqual(['file']);
    });

    test('stays usable when a reader stops early', async () => {
      const uri = joinUri(fresh(), 'long');
      await storage.write(uri, Buffer.alloc(8_000_000, 7));
      const stream = await storage.open(uri);
      for await (const chunk of stream as AsyncIterable<Buffer>) {
        expect(chunk[0]).toBe(7);
        break;
      }
      expect(stream.destroyed).toBe(true);
      expect((await storage.read(uri)).length).toBe(8_000_000);
    });
  });
}
