import { expect, test } from 'vitest';
import { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { createStorage } from '../storage/create-storage.ts';
import type { Storage } from '../storage/storage.ts';
import { describeStorage } from '../storage/testing/storage-behavior.ts';
import { joinUri } from '../storage/uri.ts';
import { USER, useCluster } from './harness.ts';

const cluster = useCluster();

async function storageAs(user: string): Promise<Storage> {
  const hadoop = await HadoopConfiguration.fromEnvironment(cluster.environment());
  return createStorage({ hadoop, user });
}

describeStorage('hdfs://', async () => {
  const storage = await storageAs(USER);
  const root = `hdfs:///user/${USER}/storage-test`;
  const close = async (): Promise<void> => {
    await storage.remove(root);
    storage.close();
  };
  return { storage, root, close };
});

test("HDFS denies access to another user's files, and the error names the user", async () => {
  const [alice, bob] = [await storageAs(USER), await storageAs('bob')];
  const folder = `hdfs:///user/${USER}/private-test`;
  try {
    await alice.makeFolder(folder, 0o700);
    await alice.write(joinUri(folder, 'file'), Buffer.from('mine'));
    await expect(bob.read(joinUri(folder, 'file'))).rejects.toMatchObject({
      code: 'ACCESS_DENIED',
      message: expect.stringContaining('user=bob'),
    });
    // The DataNode rejects the write during a long upload.
    await expect(bob.write(joinUri(folder, 'other'), Buffer.alloc(20_000_000))).rejects.toMatchObject({ code: 'ACCESS_DENIED' });
    await expect(bob.makeFolder(joinUri(folder, 'other'))).rejects.toMatchObject({ code: 'ACCESS_DENIED' });
    await expect(bob.remove(folder)).rejects.toMatchObject({ code: 'ACCESS_DENIED' });
  } finally {
    await alice.remove(folder);
    alice.close();
    bob.close();
  }
});
