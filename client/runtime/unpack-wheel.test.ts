import { execFileSync } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, truncate } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { unpackWheel } from './unpack-wheel.ts';

const MAKE = `
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED) as z:
    z.writestr('pkg/lib/large.so.2', bytes(range(256)) * 20000)
    z.writestr('pkg/größe.txt', 'wide')
    z.writestr('../outside.so', 'escaped')
    z.writestr('other/left.txt', 'not wanted')
`;
const { signal } = new AbortController();

let folder: string;
let wheel: string;

beforeEach(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'wheel-'));
  wheel = path.join(folder, 'x.whl');
  execFileSync('python3', ['-c', MAKE, wheel]);
});

afterEach(() => rm(folder, { recursive: true }));

test('unpacks only the wanted files of a wheel, and only inside the target folder', async () => {
  await unpackWheel(wheel, path.join(folder, 'out'), /^pkg\/.*\.txt$|\.so(\.|$)/, signal);
  const files = await readdir(path.join(folder, 'out'), { recursive: true });
  expect(files.sort()).toEqual(['outside.so', 'pkg', 'pkg/größe.txt', 'pkg/lib', 'pkg/lib/large.so.2']);
  expect((await readdir(folder)).sort()).toEqual(['out', 'x.whl']);
  expect(await readFile(path.join(folder, 'out/pkg/größe.txt'), 'utf8')).toBe('wide');
  const large = await readFile(path.join(folder, 'out/pkg/lib/large.so.2'));
  expect(large.equals(Buffer.alloc(256 * 20000, Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))))).toBe(true);
});

test("the error names the wheel that cannot be unpacked, and includes Python's message", async () => {
  await truncate(wheel, 100);
  await expect(unpackWheel(wheel, folder, /./, signal)).rejects.toMatchObject({
    code: 'RUNTIME_CACHE_UNWRITABLE',
    message: expect.stringMatching(/^cannot unpack x\.whl .*BadZipFile/s),
  });
});
