import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { FileStorage } from '../storage/file-storage.ts';
import { fileUri } from '../storage/uri.ts';
import { crc32c, maskedCrc32c } from './crc32c.ts';
import { encodeFileVersion, encodeRestart, encodeScalars } from './event-file.ts';
import { SummaryWriter } from './summary.ts';

test('crc32c agrees with the examples of RFC 3720', () => {
  expect(crc32c(new Uint8Array(32))).toBe(0x8a9136aa);
  expect(crc32c(new Uint8Array(32).fill(0xff))).toBe(0x62a8ab43);
  expect(crc32c(Uint8Array.from({ length: 32 }, (_, index) => index))).toBe(0x46dd794e);
  expect(crc32c(Buffer.from('123456789'))).toBe(0xe3069283);
  expect(maskedCrc32c(Buffer.from('123456789'))).toBe(0xc78ab0e5);
});

test('events are written as TensorFlow writes them', () => {
  // Written by RecordWriter and event_pb2 of the `tensorboard` package, 2.21.
  expect(encodeFileVersion(1_700_000_000.5).toString('hex')).toBe(
    '1800000000000000a37f4b220900002040fc54d9411a0d627261696e2e4576656e743a322b353110',
  );
  const scalars = [
    { tag: 'train/loss', value: 0.5 },
    { tag: 'acc', value: 0.1 },
  ];
  expect(encodeScalars(1_700_000_000.5, 300, scalars).toString('hex')).toBe(
    '2d000000000000003c418afb0900002040fc54d94110ac022a1f0a110a0a747261696e2f6c6f7373150000003f0a0a0a0361636315cdcccc3d3eb378db',
  );
  expect(encodeRestart(1_700_000_000.5, 300).toString('hex')).toBe('100000000000000095fbfe180900002040fc54d94110ac023a020801b94512a3');
});

test('a writer on disk appends to one file', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'summaries-'));
  try {
    const writer = new SummaryWriter({ storage: new FileStorage(), dir: fileUri(join(folder, 'train')), onTrouble: () => {} });
    await writer.flush();
    writer.scalar('a', 1, 1);
    await writer.flush();
    const [name] = await readdir(join(folder, 'train'));
    expect(name).toMatch(/^events\.out\.tfevents\.\d{10}\./);
    const before = await readFile(join(folder, 'train', name as string));
    writer.scalars({ a: 2, b: 3 }, 2);
    await writer.flush();
    expect(await readdir(join(folder, 'train'))).toEqual([name]);
    const after = await readFile(join(folder, 'train', name as string));
    expect(after.subarray(0, before.length).equals(before)).toBe(true);
    expect(after.length).toBeGreaterThan(before.length);
  } finally {
    await rm(folder, { recursive: true });
  }
});
