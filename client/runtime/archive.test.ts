import { execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { chmod, mkdir, mkdtemp, readFile, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { packFolder } from './archive.ts';

let folder: string;
const content = randomBytes(9 * 1024 * 1024 + 17);

beforeEach(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'archive-'));
});

afterEach(() => rm(folder, { recursive: true }));

async function tree(name: string, names: readonly string[]): Promise<string> {
  const root = path.join(folder, name);
  for (const each of names) {
    await mkdir(path.dirname(path.join(root, each)), { recursive: true });
    await writeFile(path.join(root, each), each.endsWith('.bin') ? content : each);
  }
  await chmod(path.join(root, 'bin/node'), 0o755);
  await symlink('large.bin', path.join(root, 'lib/link'));
  return root;
}

describe('packFolder', () => {
  it('identical content gives an identical archive; returns its checksum and size', async () => {
    const names = ['bin/node', 'lib/large.bin', 'lib/a/b/c.txt', 'z'];
    const one = await tree('one', names);
    const two = await tree('two', names.toReversed());
    await utimes(path.join(two, 'z'), 1, 1);
    const first = await packFolder(one, path.join(folder, 'one.tar.gz'));
    expect(await packFolder(two, path.join(folder, 'two.tar.gz'))).toEqual(first);
    const bytes = await readFile(path.join(folder, 'one.tar.gz'));
    expect(first).toEqual({ sha256: createHash('sha256').update(bytes).digest('hex'), size: bytes.length });
  });

  it('writes an archive that gzip and tar unpack completely', async () => {
    const root = await tree('one', ['bin/node', 'lib/large.bin', 'z']);
    await packFolder(root, path.join(folder, 'one.tar.gz'));
    await mkdir(path.join(folder, 'back'));
    execFileSync('bash', ['-ec', 'set -o pipefail; gzip -dc ../one.tar.gz | tar -xf -; test -x bin/node; test -L lib/link'], {
      cwd: path.join(folder, 'back'),
    });
    expect((await readFile(path.join(folder, 'back/lib/link'))).equals(content)).toBe(true);
  });
});
