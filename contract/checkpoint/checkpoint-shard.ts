import { createHash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { TonyError } from '../../platform/errors.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import { byName, type Manifest, type ShardDescription, type StoredTensor, shardName, type TensorPlace } from './checkpoint-format.ts';

/** Number of bytes to hash and send in one piece. More bytes would block the event loop for too long, and fewer would slow down uploads. */
const PIECE_BYTES = 1024 * 1024;
/** Maximum number of bytes in one read request. Adjacent tensors share a request. */
const RANGE_BYTES = 64 * 1024 * 1024;

/** Writes one checkpoint file to the folder at `uri`. The caller must not change the tensors' bytes until the promise settles. */
export async function writeShardFile(
  storage: Storage,
  uri: string,
  place: { readonly index: number; readonly count: number },
  tensors: readonly StoredTensor[],
): Promise<ShardDescription> {
  const name = shardName(place.index, place.count);
  let described: ShardDescription['tensors'] = [];
  let offset = 0;
  const pieces = async function* () {
    described = [];
    offset = 0;
    for (const tensor of tensors) {
      const hash = createHash('sha256');
      for (let at = 0; at < tensor.bytes.length; at += PIECE_BYTES) {
        const piece = tensor.bytes.subarray(at, at + PIECE_BYTES);
        hash.update(piece);
        yield piece;
      }
      const { dtype, shape, bytes } = tensor;
      const part = tensor.from === undefined ? {} : { from: tensor.from };
      described.push({ name: tensor.name, dtype, shape: [...shape], ...part, offset, bytes: bytes.length, sha256: hash.digest('hex') });
      offset += bytes.length;
    }
  };
  await storage.write(joinUri(uri, name), pieces, { length: tensors.reduce((sum, { bytes }) => sum + bytes.length, 0) });
  return { name, bytes: offset, tensors: described };
}

/**
 * Reads the tensors for which `isWanted` returns true from the checkpoint in the folder at `uri`. Returns them in the order in which the
 * checkpoint stores them.
 * @throws TonyError CHECKPOINT_INVALID, or NOT_FOUND if a file is missing.
 */
export async function readTensorsOf(
  storage: Storage,
  uri: string,
  manifest: Manifest,
  isWanted: (name: string) => boolean,
): Promise<StoredTensor[]> {
  const found: StoredTensor[] = [];
  for (const file of manifest.files) {
    const places = manifest.tensors.filter((place) => place.file === file.name);
    if (!places.some(({ name }) => isWanted(name))) {
      continue;
    }
    const fileUri = joinUri(uri, ...(manifest.folder === undefined ? [] : [manifest.folder]), file.name);
    const entry = await storage.stat(fileUri);
    if (entry === null) {
      throw new TonyError('NOT_FOUND', `${fileUri} does not exist.`);
    }
    if (entry.size !== file.bytes) {
      throw new TonyError('CHECKPOINT_INVALID', `${fileUri} has ${entry.size} bytes instead of ${file.bytes}`);
    }
    for (const range of rangesOf(places.filter(({ name }) => isWanted(name)))) {
      const start = (range[0] as TensorPlace).offset;
      const last = range.at(-1) as TensorPlace;
      const bytes = await readRange(storage, fileUri, start, last.offset + last.bytes - start);
      for (const place of range) {
        const tensor = tensorAt(place, bytes, start);
        await verify(tensor.bytes, place.sha256, `${place.name} in ${fileUri}`);
        found.push(tensor);
      }
    }
  }
  return [...byName(found).values()].map(wholeOf);
}

/** Joins a tensor's parts. `parts` must be complete and in order, as `parseManifest` has verified. */
function wholeOf(parts: readonly StoredTensor[]): StoredTensor {
  const [first] = parts as readonly [StoredTensor];
  return parts.length === 1
    ? first
    : { name: first.name, dtype: first.dtype, shape: first.shape, bytes: Buffer.concat(parts.map(({ bytes }) => bytes)) };
}

/** Groups adjacent tensors into ranges of at most RANGE_BYTES. A tensor that exceeds RANGE_BYTES has a range of its own. */
function rangesOf(places: readonly TensorPlace[]): TensorPlace[][] {
  const ranges: TensorPlace[][] = [];
  for (const place of places) {
    const range = ranges.at(-1);
    const [first, last] = [range?.[0], range?.at(-1)];
    const isNext = first !== undefined && last !== undefined && place.offset === last.offset + last.bytes;
    if (range !== undefined && isNext && place.offset + place.bytes - first.offset <= RANGE_BYTES) {
      range.push(place);
    } else {
      ranges.push([place]);
    }
  }
  return ranges;
}

function tensorAt({ name, dtype, shape, from, offset, bytes }: TensorPlace, data: Uint8Array, start: number): StoredTensor {
  const part = from === undefined ? {} : { from };
  return { name, dtype, shape, ...part, bytes: data.subarray(offset - start, offset - start + bytes) };
}

/** Reads part of a file. @throws TonyError CHECKPOINT_INVALID if the file's length has changed. */
async function readRange(storage: Storage, uri: string, offset: number, length: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(length);
  let at = 0;
  if (length > 0) {
    for await (const chunk of (await storage.open(uri, { offset, length })) as AsyncIterable<Uint8Array>) {
      if (at + chunk.length > length) {
        break;
      }
      bytes.set(chunk, at);
      at += chunk.length;
    }
  }
  if (at !== length) {
    throw new TonyError('CHECKPOINT_INVALID', `${uri} changed while it was read`);
  }
  return bytes;
}

async function verify(bytes: Uint8Array, expected: string, what: string): Promise<void> {
  const hash = createHash('sha256');
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
    hash.update(bytes.subarray(at, at + PIECE_BYTES));
    if (at > 0) {
      // Lets other work on this thread run.
      await setImmediate();
    }
  }
  if (hash.digest('hex') !== expected) {
    throw new TonyError('CHECKPOINT_INVALID', `the checksum of ${what} is wrong`);
  }
}
