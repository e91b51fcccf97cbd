import { deflateSync, gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { FileStorage } from '../../../storage/file-storage.ts';
import { tfRecords } from '../sources/sources.ts';
import { folderWith, tfRecordFile } from '../testing/files.ts';

const storage = new FileStorage();
const RECORDS = Array.from({ length: 50 }, (_, index) => `record ${index}`);
const FILE = tfRecordFile(RECORDS);

async function read(content: Buffer, name = 'part-r-00000'): Promise<string[]> {
  const folder = await folderWith({ [name]: content });
  return (await tfRecords(folder).toArray({ storage })).map(String);
}

describe('compressed TFRecord files', () => {
  test.each([
    ['none', FILE],
    ['gzip', gzipSync(FILE)],
    ['zlib', deflateSync(FILE)],
    ['zlib, level 1', deflateSync(FILE, { level: 1 })],
    ['zlib, level 9', deflateSync(FILE, { level: 9 })],
  ])('are recognised by their first bytes: %s', async (_, content) => {
    expect(await read(content)).toEqual(RECORDS);
    const folder = await folderWith({ x: content });
    const reader = tfRecords(folder).read({ storage });
    for (let taken = 0; taken < 20; taken++) {
      await reader.next();
    }
    const state = reader.state();
    await reader.return?.();
    expect((await tfRecords(folder).toArray({ storage, state })).map(String)).toEqual(RECORDS.slice(20));
  });

  test('are not confused with records whose length looks like the magic bytes', async () => {
    for (const length of [0x9c78, 0x0178, 0x88b1f]) {
      const record = 'x'.repeat(length);
      expect(await read(tfRecordFile([record, 'y']))).toEqual([record, 'y']);
    }
  });

  test.each(['x.tfrecord', 'x.tfrecord.gz', 'x.tfrecord.zlib'])('an empty file has no records: %s', async (name) => {
    expect(await read(Buffer.alloc(0), name)).toEqual([]);
  });

  test('other files are damaged', async () => {
    await expect(read(Buffer.from('not records'))).rejects.toMatchObject({ code: 'DATA_INVALID' });
    await expect(read(Buffer.from('not a file of records'))).rejects.toThrow('not a TFRecord file');
  });
});
