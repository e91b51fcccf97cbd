import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createInflateRaw } from 'node:zlib';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { intoFile } from './into-file.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'into-file-'));
});
afterEach(() => rm(folder, { recursive: true }));

test('intoFile resolves after the file is completely written', async () => {
  const file = join(folder, 'file');
  await intoFile(file, 0o600, (stream) => pipeline(Readable.from(['a', 'b'.repeat(1 << 20)]), stream));
  expect(await readFile(file, 'utf8')).toBe(`a${'b'.repeat(1 << 20)}`);
});

test('intoFile does not create a file after it has rejected', async () => {
  const files = Array.from({ length: 200 }, (_, index) => join(folder, `file-${index}`));
  for (const file of files) {
    const writing = intoFile(file, 0o600, (stream) =>
      pipeline(Readable.from([Buffer.from('no deflated data')]), createInflateRaw(), stream),
    );
    await expect(writing).rejects.toThrow('invalid');
    await rm(file);
  }
  expect(files.filter((file) => existsSync(file))).toEqual([]);
});
