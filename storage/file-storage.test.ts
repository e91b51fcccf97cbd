import { chmod, mkdir, mkdtemp, readdir, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createStorage } from './create-storage.ts';
import { describeStorage } from './testing/storage-behavior.ts';
import { fileUri, joinUri } from './uri.ts';

describeStorage('file://', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'storage test-'));
  const storage = createStorage({ hadoop: null, user: 'alice' });
  return {
    storage,
    root: fileUri(folder),
    close: async () => {
      storage.close();
      await rm(folder, { recursive: true });
    },
  };
});

test('permissions do not depend on the umask, and a write leaves no other file behind', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'storage-test-'));
  const umask = process.umask(0o077);
  try {
    const storage = createStorage({ hadoop: null, user: 'alice' });
    const uri = joinUri(fileUri(folder), 'open');
    await storage.write(uri, Buffer.from('x'), { permission: 0o664 });
    expect(await storage.stat(uri)).toMatchObject({ permission: 0o664 });
    expect(await readdir(folder)).toEqual(['open']);
  } finally {
    process.umask(umask);
    await rm(folder, { recursive: true });
  }
});

test('a raw list shows links as files', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'storage-test-'));
  try {
    const storage = createStorage({ hadoop: null, user: 'alice' });
    await symlink('.', join(folder, 'loop'));
    const kinds = async (raw: boolean) => (await storage.list(fileUri(folder), { raw })).map(({ name, type }) => [name, type]);
    expect(await kinds(false)).toEqual([['loop', 'folder']]);
    expect(await kinds(true)).toEqual([['loop', 'file']]);
  } finally {
    await rm(folder, { recursive: true });
  }
});

test.skipIf(process.getuid?.() === 0)('a write into a folder without write permission fails with ACCESS_DENIED', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'storage-test-'));
  const closed = join(folder, 'closed');
  await mkdir(closed);
  await chmod(closed, 0o555);
  try {
    const storage = createStorage({ hadoop: null, user: 'alice' });
    await expect(storage.write(joinUri(fileUri(closed), 'x'), Buffer.from('x'))).rejects.toMatchObject({ code: 'ACCESS_DENIED' });
  } finally {
    await rm(folder, { recursive: true });
  }
});

test('without a cluster, hdfs:// fails with a hint', async () => {
  const storage = createStorage({ hadoop: null, user: 'alice' });
  await expect(storage.read('hdfs://nn/x')).rejects.toMatchObject({
    code: 'HADOOP_CONF_NOT_FOUND',
    hint: expect.stringContaining('HADOOP_CONF_DIR'),
  });
});
