import { mkdir, readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { CheckpointStore } from '../../contract/checkpoint/checkpoint-store.ts';
import { describeFencing, ORIGIN, saveSharded, snapshot } from '../../contract/testing/checkpoint-behaviour.ts';
import { createStorage } from '../../storage/create-storage.ts';
import { S3Client } from '../../storage/s3/s3-client.ts';
import { PART_BYTES } from '../../storage/s3/s3-upload.ts';
import type { Storage } from '../../storage/storage.ts';
import { describeStorage } from '../../storage/testing/storage-behavior.ts';
import { joinUri } from '../../storage/uri.ts';
import { FaultyProxy } from '../faulty-proxy.ts';
import { useObjectStore } from '../s3/object-store.ts';
import { until } from '../until.ts';

const store = useObjectStore();

function openStorage(): Storage {
  return createStorage({ hadoop: null, user: 'alice', s3: async () => store().connection });
}

let folders = 0;
function freshFolder(): string {
  folders += 1;
  return `s3://${store().bucket}/folder-${folders}`;
}

describeStorage(
  's3://',
  async () => {
    const storage = openStorage();
    return { storage, root: `s3a://${store().bucket}/storage-test`, close: async () => storage.close() };
  },
  { isObjectStore: true },
);

describe('an object larger than one part', () => {
  const large = Buffer.alloc(2 * PART_BYTES + 1000, 'tony');

  test('is uploaded in parts, exclusively if required, and is copied by a rename', async () => {
    const storage = openStorage();
    const [uri, other] = [joinUri(freshFolder(), 'large'), joinUri(freshFolder(), 'renamed')];
    const seen: number[] = [];
    expect(await storage.write(uri, large, { ifAbsent: true, onProgress: (bytes) => seen.push(bytes) })).toBe(true);
    expect(seen.at(-1)).toBe(large.length);
    // Both writers find no object at first; the conditional completion decides.
    const race = joinUri(freshFolder(), 'race');
    const wins = await Promise.all([1, 2].map(() => storage.write(race, large, { ifAbsent: true })));
    expect(wins.filter(Boolean)).toHaveLength(1);
    expect(await storage.rename(uri, other)).toBe(true);
    expect((await storage.read(other)).equals(large)).toBe(true);
    expect(await storage.stat(uri)).toBeNull();
    storage.close();
  });

  test('leaves no parts behind when its source fails', async () => {
    const storage = openStorage();
    const uri = joinUri(freshFolder(), 'failing');
    async function* failing(): AsyncIterable<Buffer> {
      yield large;
      throw new Error('the source ran dry');
    }
    const aborted: string[] = [];
    const { abortUpload } = S3Client.prototype;
    S3Client.prototype.abortUpload = async function (upload) {
      await abortUpload.call(this, upload);
      aborted.push(upload.key);
    };
    try {
      await expect(storage.write(uri, failing())).rejects.toThrow('the source ran dry');
    } finally {
      S3Client.prototype.abortUpload = abortUpload;
    }
    expect(aborted).toEqual([uri.slice(`s3://${store().bucket}/`.length)]);
    expect(await storage.stat(uri)).toBeNull();
    storage.close();
  });
});

test('a folder with more objects than a page is listed and removed completely', async () => {
  const storage = openStorage();
  const uri = freshFolder();
  const folder = path.join(store().folder, uri.slice(uri.lastIndexOf('/') + 1));
  await mkdir(folder, { recursive: true });
  const names = Array.from({ length: 1005 }, (_, index) => `part-${String(index).padStart(5, '0')}`);
  for (const name of names) {
    await writeFile(path.join(folder, name), name);
  }
  expect((await storage.list(uri)).map(({ name }) => name)).toEqual(names);
  expect(await storage.remove(uri)).toBe(true);
  expect(await storage.stat(uri)).toBeNull();
  storage.close();
});

test('wrong keys, missing buckets and unreachable stores cause specific errors', async () => {
  const { connection, bucket } = store();
  const wrong = createStorage({ hadoop: null, user: 'alice', s3: async () => ({ ...connection, accessKeyId: 'unknown-key' }) });
  await expect(wrong.read(`s3://${bucket}/x`)).rejects.toMatchObject({ code: 'ACCESS_DENIED' });
  const storage = openStorage();
  await expect(storage.list('s3://no-such-bucket/x')).rejects.toMatchObject({
    code: 'NOT_FOUND',
    message: expect.stringContaining('bucket'),
  });
  const away = createStorage({ hadoop: null, user: 'alice', s3: async () => ({ ...connection, endpoint: 'http://127.0.0.1:1' }) });
  await expect(away.read(`s3://${bucket}/x`)).rejects.toMatchObject({ code: 'S3_UNREACHABLE' });
  const none = createStorage({ hadoop: null, user: 'alice' });
  await expect(none.read(`s3://${bucket}/x`)).rejects.toMatchObject({ code: 'S3_CREDENTIALS_NOT_FOUND' });
  for (const each of [wrong, storage, away]) {
    each.close();
  }
});

test('an exclusive writer recognises its own object when the first response was lost', async () => {
  const { connection } = store();
  const { hostname, port } = new URL(connection.endpoint ?? '');
  const proxy = await FaultyProxy.open({ host: hostname, port: Number(port) });
  const direct = openStorage();
  const endpoint = `http://127.0.0.1:${proxy.port}`;
  const behind = createStorage({ hadoop: null, user: 'alice', s3: async () => ({ ...connection, endpoint }) });
  const uri = joinUri(freshFolder(), 'mine');
  try {
    // The writer reads its source after it has found no object.
    async function* source(): AsyncIterable<Buffer> {
      proxy.hold('answer');
      yield Buffer.from('mine');
    }
    const writing = behind.write(uri, source(), { ifAbsent: true });
    await until(async () => (await direct.stat(uri)) !== null, { describe: 'the object' });
    proxy.cut();
    proxy.restore();
    expect(await writing).toBe(true);
    expect(await behind.write(uri, Buffer.from('other'), { ifAbsent: true })).toBe(false);
  } finally {
    behind.close();
    direct.close();
    await proxy.close();
  }
});

describeFencing('s3', async () => ({ storage: openStorage(), dir: freshFolder() }), [0, 3, 6, 9, 12, 15]);

describe('checkpoints in an object store', () => {
  test('are replaced, pruned and held like those in folders', async () => {
    const [storage, dir] = [openStorage(), freshFolder()];
    const checkpoints = new CheckpointStore(storage, dir);
    for (const step of [1, 2, 3, 4]) {
      await saveSharded(checkpoints, step, ORIGIN);
    }
    await checkpoints.save(snapshot(4, true), ORIGIN);
    expect((await checkpoints.newest(() => {}))?.position).toMatchObject({ step: 4, final: true });
    expect(await checkpoints.marks.hold('evaluator:0', 1)).toBe(true);
    await checkpoints.prune(4, 2);
    expect(await checkpoints.steps()).toEqual([4, 3, 1]);
    // Each folder contains the manifest and the files of one attempt, and the log has one entry.
    expect(await readdir(path.join(store().folder, dir.slice(dir.lastIndexOf('/') + 1), 'step-4'))).toHaveLength(2);
    expect(await storage.list(joinUri(dir, '.log', ORIGIN.jobId, 'generation-1'))).toHaveLength(1);
    storage.close();
  });

  test('leave no files of interrupted attempts after the generation is retired', async () => {
    const [storage, dir] = [openStorage(), freshFolder()];
    const checkpoints = new CheckpointStore(storage, dir);
    await checkpoints.save(snapshot(1), ORIGIN);
    const pending = await checkpoints.beginSave(2, ORIGIN);
    await checkpoints.writeShard(pending, { index: 0, count: 1 }, snapshot(2).tensors);
    expect(await checkpoints.steps()).toEqual([1]);
    await checkpoints.retireOlderThan({ ...ORIGIN, generation: 2 });
    expect(await storage.list(pending.uri)).toEqual([]);
    storage.close();
  });
});
