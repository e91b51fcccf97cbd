import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import { jittered, pause } from '../platform/async/backoff.ts';
import { type ByteSource, openSource } from '../platform/byte-source.ts';
import { TonyError } from '../platform/errors.ts';
import type { ListPage, ListRequest, ObjectPlace, S3Client, StoredObject, UploadedPart } from './s3/s3-client.ts';
import type { FindS3Connection } from './s3/s3-connection.ts';
import { isRequestError, s3Error, statusOf } from './s3/s3-errors.ts';
import { abortUpload, partsOf, uploadParts } from './s3/s3-upload.ts';
import type { Entry, ListingOptions, Storage, WriteOptions } from './storage.ts';
import { isTemporaryName } from './temporary-name.ts';
import { joinUri, nameOf, parseUri } from './uri.ts';

const FILE_PERMISSION = 0o644;
const FOLDER_PERMISSION = 0o755;
const CONCURRENT_REMOVALS = 16;
/** Large objects are copied in parts of this size, in bytes. */
const COPIED_PART_BYTES = 1024 * 1024 * 1024;
const CONFLICT_RETRIES = 5;
const CONFLICT_PAUSE_MS = 200;

/** A bucket's object store and the client for it. */
interface Store {
  readonly client: S3Client;
  readonly endpoint: string | null;
}

/**
 * Storage in an S3-compatible object store, for s3:// URIs. A folder is a common prefix of keys. Like Hadoop and the AWS console,
 * `makeFolder` creates an empty object whose key ends with a slash. Exclusive writes are conditional requests (`If-None-Match: *`).
 */
export class S3Storage implements Storage {
  readonly #find: FindS3Connection;
  /** Keyed by bucket. */
  readonly #stores = new Map<string, Promise<Store>>();

  /** @param find finds a bucket's object store; called for the first operation on each bucket */
  constructor(find: FindS3Connection) {
    this.#find = find;
  }

  async open(uri: string, { offset = 0, length }: { offset?: number; length?: number } = {}): Promise<Readable> {
    const place = objectAt(uri);
    return this.#request(uri, place, async (client) => {
      if (length === 0) {
        await client.head(place);
        return Readable.from([]);
      }
      const range = offset === 0 && length === undefined ? undefined : `bytes=${offset}-${length === undefined ? '' : offset + length - 1}`;
      const body = await client.get(place, range).catch((error: unknown) => {
        // Status 416 means that the range begins at or after the end of the object.
        if (statusOf(error) === 416) {
          return Readable.from([]);
        }
        throw error;
      });
      return Readable.from(translated(body, uri), { objectMode: false, highWaterMark: 256 * 1024 });
    });
  }

  async read(uri: string): Promise<Buffer> {
    return Buffer.concat(await (await this.open(uri)).toArray());
  }

  async write(uri: string, data: ByteSource, options: WriteOptions = {}): Promise<boolean> {
    const place = objectAt(uri);
    return this.#request(uri, place, async (client) => {
      if (options.ifAbsent && (await this.stat(uri)) !== null) {
        return false;
      }
      const opened = openSource(data);
      const pieces = partsOf(opened instanceof Uint8Array ? Readable.from([opened]) : opened);
      try {
        return await this.#writePieces(client, place, pieces, uri, options);
      } finally {
        await pieces.return();
      }
    });
  }

  async #writePieces(
    client: S3Client,
    place: ObjectPlace,
    pieces: AsyncGenerator<Uint8Array, void>,
    uri: string,
    { ifAbsent = false, makeParents = true, onProgress = () => {} }: WriteOptions,
  ): Promise<boolean> {
    const writer = randomUUID();
    const [first, second] = [await pieces.next(), await pieces.next()];
    if (second.done) {
      const body = first.value ?? new Uint8Array();
      await this.#checkParent(uri, makeParents);
      const isWritten = await exclusively(client, place, writer, ifAbsent, () =>
        client.put(place, body, { writer, isExclusive: ifAbsent }),
      );
      onProgress(body.length);
      return isWritten;
    }
    let sent = 0;
    const all = chain([first.value as Uint8Array, second.value], pieces);
    const { upload, parts } = await uploadParts(client, place, writer, all, (bytes) => {
      sent += bytes;
      onProgress(sent);
    });
    try {
      await this.#checkParent(uri, makeParents);
      const isWritten = await exclusively(client, place, writer, ifAbsent, () => client.completeUpload(upload, parts, ifAbsent));
      if (!isWritten) {
        await abortUpload(client, upload);
      }
      return isWritten;
    } catch (error) {
      await abortUpload(client, upload);
      throw error;
    }
  }

  /**
   * Checks that the parent folder exists. Called immediately before the object appears, to make it unlikely that a late write recreates a
   * removed folder.
   */
  async #checkParent(uri: string, makeParents: boolean): Promise<void> {
    const { path } = parseUri(uri);
    const parent = uri.slice(0, uri.length - path.length + path.lastIndexOf('/'));
    if (!makeParents && (await this.stat(parent))?.type !== 'folder') {
      throw new TonyError('NOT_FOUND', `${parent} does not exist.`);
    }
  }

  async stat(uri: string): Promise<Entry | null> {
    const { bucket, key } = placeOf(uri);
    return this.#request(uri, { bucket }, async (client) => {
      const object = key === '' ? null : await headIfThere(client, { bucket, key });
      if (object !== null) {
        return fileEntry(uri, object);
      }
      const { objects } = await client.list({ bucket, prefix: prefixOf(key), isShallow: false, most: 1 });
      return objects.length > 0 || key === '' ? folderEntry(uri) : null;
    });
  }

  async list(uri: string, { raw = false, most = Number.POSITIVE_INFINITY }: ListingOptions = {}): Promise<Entry[]> {
    const { bucket, key } = placeOf(uri);
    const prefix = prefixOf(key);
    return this.#request(uri, { bucket }, async (client) => {
      const found = new Map<string, Entry>();
      for await (const { objects, prefixes } of pages(client, { bucket, prefix, isShallow: true })) {
        for (const object of objects.filter((each) => each.key !== prefix)) {
          const name = object.key.slice(prefix.length);
          found.set(name, fileEntry(joinUri(uri, name), object));
        }
        for (const folder of prefixes) {
          const name = folder.slice(prefix.length, -1);
          found.set(name, folderEntry(joinUri(uri, name)));
        }
        // The names on each page sort after those on the previous page.
        if (found.size >= most) {
          break;
        }
      }
      const entries = [...found.values()].filter(({ name }) => name !== '' && (raw || !isTemporaryName(name)));
      return entries.sort((a, b) => (a.name < b.name ? -1 : 1)).slice(0, most);
    });
  }

  /** Renames an object by copying it within the store and then removing the source. For a moment, readers may see both names. */
  async rename(from: string, to: string): Promise<boolean> {
    const [source, target] = [objectAt(from), objectAt(to)];
    return this.#request(`${from} to ${to}`, target, async (client) => {
      const [own, other] = [await this.#storeOf(target), await this.#storeOf(source)];
      if (own.endpoint !== other.endpoint) {
        throw new TonyError('STORAGE_DENIED', `${from} cannot be moved to ${to}, which is in another object store.`);
      }
      const [entry, existing] = await Promise.all([this.stat(from), this.stat(to)]);
      if (entry === null || existing !== null) {
        return false;
      }
      if (entry.type === 'folder') {
        throw new TonyError('STORAGE_DENIED', `${from} is a folder; an object store cannot rename folders.`, {
          hint: 'Use a folder on HDFS.',
        });
      }
      const isCopied = await copyObject(client, source, target, entry.size);
      if (isCopied) {
        await other.client.remove(source);
      }
      return isCopied;
    });
  }

  async remove(uri: string): Promise<boolean> {
    const { bucket, key } = placeOf(uri);
    if (key === '') {
      throw new TonyError('STORAGE_DENIED', `${uri}: a whole bucket cannot be removed.`);
    }
    return this.#request(uri, { bucket }, async (client) => {
      let isFound = (await headIfThere(client, { bucket, key })) !== null;
      if (isFound) {
        await client.remove({ bucket, key });
      }
      for await (const { objects } of pages(client, { bucket, prefix: prefixOf(key), isShallow: false })) {
        isFound ||= objects.length > 0;
        for (let at = 0; at < objects.length; at += CONCURRENT_REMOVALS) {
          await Promise.all(objects.slice(at, at + CONCURRENT_REMOVALS).map((object) => client.remove({ bucket, key: object.key })));
        }
      }
      return isFound;
    });
  }

  async makeFolder(uri: string): Promise<void> {
    const { bucket, key } = placeOf(uri);
    await this.#request(uri, { bucket }, async (client) => {
      if (key === '') {
        return await client.headBucket(bucket);
      }
      const entry = await this.stat(uri);
      if (entry?.type === 'file') {
        throw new TonyError('ALREADY_EXISTS', `${uri} is a file.`);
      }
      if (entry === null) {
        await client.put({ bucket, key: `${key}/` }, new Uint8Array(), { writer: randomUUID(), isExclusive: false });
      }
    });
  }

  close(): void {
    for (const store of this.#stores.values()) {
      store.then(({ client }) => client.close()).catch(() => {});
    }
    this.#stores.clear();
  }

  async #request<T>(uri: string, place: Pick<ObjectPlace, 'bucket'>, work: (client: S3Client) => Promise<T>): Promise<T> {
    const { client } = await this.#storeOf(place);
    try {
      return await work(client);
    } catch (error) {
      throw isRequestError(error) ? s3Error(error, uri) : error;
    }
  }

  /** Returns a bucket's store. Does not retry after a failure, such as missing credentials. */
  #storeOf({ bucket }: Pick<ObjectPlace, 'bucket'>): Promise<Store> {
    const store = this.#stores.get(bucket) ?? this.#open(bucket);
    this.#stores.set(bucket, store);
    return store;
  }

  async #open(bucket: string): Promise<Store> {
    const [connection, module] = await Promise.all([this.#find(bucket), import('./s3/s3-client.ts')]);
    return { client: new module.S3Client(connection), endpoint: connection.endpoint };
  }
}

/**
 * Runs a write that fails if the object exists. If a response is lost, the retry fails because the first attempt has already created the
 * object. To detect this case, the writer stores its ID in the object's metadata.
 * @returns false if another writer has created the object
 */
async function exclusively(
  client: S3Client,
  place: ObjectPlace,
  writer: string,
  isExclusive: boolean,
  write: () => Promise<void>,
): Promise<boolean> {
  for (let conflicts = 0; ; conflicts++) {
    try {
      await write();
      return true;
    } catch (error) {
      const status = statusOf(error);
      const existing = isExclusive && (status === 412 || status === 409 || status === 404) ? await headIfThere(client, place) : null;
      if (existing !== null) {
        return existing.writer === writer;
      }
      // If two conditional writes arrive at the same time, both may fail with a conflict.
      if (!isExclusive || status !== 409 || conflicts === CONFLICT_RETRIES) {
        throw error;
      }
      await pause(jittered(CONFLICT_PAUSE_MS * 2 ** conflicts));
    }
  }
}

async function copyObject(client: S3Client, source: ObjectPlace, target: ObjectPlace, size: number): Promise<boolean> {
  const writer = randomUUID();
  if (size === 0) {
    return await exclusively(client, target, writer, true, () => client.put(target, new Uint8Array(), { writer, isExclusive: true }));
  }
  // A multipart upload can be conditional, unlike a plain copy.
  const upload = await client.startUpload(target, writer);
  let isCopied = false;
  try {
    const parts: UploadedPart[] = [];
    for (let first = 0; first < size; first += COPIED_PART_BYTES) {
      const last = Math.min(size, first + COPIED_PART_BYTES) - 1;
      parts.push(await client.copyPart(upload, parts.length + 1, source, first, last));
    }
    isCopied = await exclusively(client, target, writer, true, () => client.completeUpload(upload, parts, true));
    return isCopied;
  } finally {
    if (!isCopied) {
      await abortUpload(client, upload);
    }
  }
}

async function headIfThere(client: S3Client, place: ObjectPlace): Promise<Awaited<ReturnType<S3Client['head']>> | null> {
  return await client.head(place).catch((error: unknown) => {
    if (statusOf(error) === 404) {
      return null;
    }
    throw error;
  });
}

async function* pages(client: S3Client, request: ListRequest): AsyncGenerator<ListPage, void> {
  let token: string | undefined;
  do {
    const page: ListPage = await client.list({ ...request, token });
    yield page;
    token = page.token;
  } while (token !== undefined);
}

async function* chain(first: readonly Uint8Array[], rest: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  yield* first;
  yield* rest;
}

async function* translated(body: Readable, uri: string): AsyncGenerator<Uint8Array, void> {
  try {
    yield* body as AsyncIterable<Uint8Array>;
  } catch (error) {
    throw s3Error(error, uri);
  } finally {
    body.destroy();
  }
}

function placeOf(uri: string): ObjectPlace {
  const parsed = parseUri(uri);
  if (parsed.scheme !== 's3') {
    throw new TonyError('STORAGE_DENIED', `${uri} is not an s3:// URI.`);
  }
  return { bucket: parsed.bucket, key: parsed.path.slice(1) };
}

function objectAt(uri: string): ObjectPlace {
  const place = placeOf(uri);
  if (place.key === '') {
    throw new TonyError('NOT_FOUND', `${uri} is a bucket, not a file.`);
  }
  return place;
}

function prefixOf(key: string): string {
  return key === '' ? '' : `${key}/`;
}

function fileEntry(uri: string, { size, modifiedAt, etag }: StoredObject): Entry {
  const version = { size, modifiedAt, ...(etag !== undefined && { etag }) };
  return { uri, name: nameOf(uri), type: 'file', ...version, permission: FILE_PERMISSION, owner: '' };
}

function folderEntry(uri: string): Entry {
  return { uri, name: nameOf(uri), type: 'folder', size: 0, modifiedAt: 0, permission: FOLDER_PERMISSION, owner: '' };
}
