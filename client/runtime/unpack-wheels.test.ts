import { execFileSync } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, truncate } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { unpackWheels } from './unpack-wheels.ts';

const MAKE = `
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED) as z:
    z.writestr('pkg/lib/large.so.2', bytes(range(256)) * 20000)
    z.writestr('pkg/größe.txt', 'wide')
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

test('unpacks only the wanted files of a wheel', async () => {
  await unpackWheels([wheel], { folder: path.join(folder, 'out'), wanted: /^pkg\/.*\.txt$|\.so(\.|$)/ }, signal);
  const files = await readdir(path.join(folder, 'out'), { recursive: true });
  expect(files.sort()).toEqual(['pkg', 'pkg/größe.txt', 'pkg/lib', 'pkg/lib/large.so.2']);
  expect((await readdir(folder)).sort()).toEqual(['out', 'x.whl']);
  expect(await readFile(path.join(folder, 'out/pkg/größe.txt'), 'utf8')).toBe('wide');
  const large = await readFile(path.join(folder, 'out/pkg/lib/large.so.2'));
  expect(large.equals(Buffer.alloc(256 * 20000, Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))))).toBe(true);
});

test('rejects a wheel that contains a path outside the target folder', async () => {
  execFileSync('python3', ['-c', "import sys, zipfile; zipfile.ZipFile(sys.argv[1], 'w').writestr('../outside.so', '')", wheel]);
  await expect(unpackWheels([wheel], { folder: path.join(folder, 'out') }, signal)).rejects.toThrow('contains the path ../outside.so');
  expect(await readdir(folder)).toEqual(['x.whl']);
});

const MAKE_INSTALLABLE = `
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w') as z:
    z.writestr('pkg/__init__.py', 'def main(): print("command runs")')
    z.writestr('pkg-1.data/purelib/more.py', 'x = 1')
    z.writestr('pkg-1.data/data/share/pkg/data.txt', 'data')
    z.writestr('pkg-1.data/scripts/tool', '#!python\\nimport more; print("script runs", more.x)')
    z.writestr('pkg-1.data/headers/pkg.h', '')
    z.writestr('pkg-1.dist-info/entry_points.txt', '[console_scripts]\\npkg-run = pkg:main\\n../bad = pkg:main\\n')
`;

test('installs the commands, scripts and data files of a wheel as pip does', async () => {
  execFileSync('python3', ['-c', MAKE_INSTALLABLE, wheel]);
  const [root, site] = [path.join(folder, 'out'), path.join(folder, 'out/site')];
  await unpackWheels([wheel], { folder: site, root }, signal);
  const files = await readdir(root, { recursive: true, withFileTypes: true });
  const names = files.filter((file) => file.isFile()).map((file) => path.relative(root, path.join(file.parentPath, file.name)));
  expect(names.sort()).toEqual([
    'bin/pkg-run',
    'bin/tool',
    'share/pkg/data.txt',
    'site/more.py',
    'site/pkg-1.dist-info/entry_points.txt',
    'site/pkg/__init__.py',
  ]);
  const output = ['pkg-run', 'tool'].map((name) =>
    execFileSync(path.join(root, 'bin', name), { env: { ...process.env, PYTHONPATH: site, PYTHONDONTWRITEBYTECODE: '1' } }).toString(),
  );
  expect(output).toEqual(['command runs\n', 'script runs 1\n']);
});

test("the error names the wheel that cannot be unpacked, and includes Python's message", async () => {
  await truncate(wheel, 100);
  await expect(unpackWheels([wheel], { folder }, signal)).rejects.toMatchObject({
    code: 'RUNTIME_CACHE_UNWRITABLE',
    message: expect.stringMatching(/^cannot unpack wheels in .*x\.whl: BadZipFile/s),
  });
});
