import { createHash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { TonyError } from '../conf/errors.ts';
import type { Storage } from '../storage/storage.ts';
import { joinUri } from '../storage/uri.ts';
import { byName, type Manifest, type ShardDescription, type StoredTensor, shardName, type TensorPlace } from './checkpoint-format.ts';

/** What is hashed and sent at once: little enough not to hold up the process, enough for storage to be fast. */
const PIECE_BYTES = 1024 * 1024;
/** Neighbouring tensors are read together up to this size. */
const RANGE_BYTES = 64 * 1024 * 1024;

/** Writes one file of a checkpoint into the folder `uri`; its bytes must not change meanwhile. */
export async function writeShardFile(
  storage: Storage,
  uri: string,
  place: { readonly index: number; readonly count: number },
  tensors: readonly StoredTensor[],
): Promise<ShardDescription> {
  const name = shardName(place.index, place.count);
  const described: ShardDescription['tensors'] = [];
  let offset = 0;
  const pieces = async function* () {
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
  await storage.write(joinUri(uri, name), pieces(), { length: tensors.reduce((sum, { bytes }) => sum + bytes.length, 0) });
  return { name, bytes: offset, tensors: described };
}

/**
 * Some tensors of the checkpoint in the folder `uri`, in its order. Only their bytes are read (of a checkpoint of version 1, all).
 * @throws TonyError CHECKPOINT_DAMAGED, or NOT_FOUND when a file is not there.
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
    const fileUri = joinUri(uri, file.name);
    const entry = await storage.stat(fileUri);
    if (entry === null) {
      throw new TonyError('NOT_FOUND', `${fileUri} does not exist.`);
    }
    if (entry.size !== file.bytes) {
      throw new TonyError('CHECKPOINT_DAMAGED', `${fileUri} has ${entry.size} bytes instead of ${file.bytes}`);
    }
    if (file.sha256 !== null) {
      const whole = await readRange(storage, fileUri, 0, file.bytes);
      await verify(whole, file.sha256, fileUri);
      found.push(...places.filter(({ name }) => isWanted(name)).map((place) => tensorAt(place, whole, 0)));
      continue;
    }
    for (const range of rangesOf(places.filter(({ name }) => isWanted(name)))) {
      const start = (range[0] as TensorPlace).offset;
      const last = range.at(-1) as TensorPlace;
      const bytes = await readRange(storage, fileUri, start, last.offset + last.bytes - start);
      for (const place of range) {
        const tensor = tensorAt(place, bytes, start);
        await verify(tensor.bytes, place.sha256 as string, `${place.name} in ${fileUri}`);
        found.push(tensor);
      }
    }
  }
  return [...byName(found).values()].map(wholeOf);
}

/** @param parts in their order; all of them, as the manifest was checked for. */
function wholeOf(parts: readonly StoredTensor[]): StoredTensor {
  const [first] = parts as readonly [StoredTensor];
  return parts.length === 1
    ? first
    : { name: first.name, dtype: first.dtype, shape: first.shape, bytes: Buffer.concat(parts.map(({ bytes }) => bytes)) };
}

/** Neighbours together, as long as they are not too much at once. */
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

/** The length has been compared with that of the file before. */
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
    throw new TonyError('CHECKPOINT_DAMAGED', `${uri} was changed while it was read`);
  }
  return bytes;
}

async function verify(bytes: Uint8Array, expected: string, what: string): Promise<void> {
  const hash = createHash('sha256');
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
    hash.update(bytes.subarray(at, at + PIECE_BYTES));
    if (at > 0) {
      // Others may need this thread meanwhile.
      await setImmediate();
    }
  }
  if (hash.digest('hex') !== expected) {
    throw new TonyError('CHECKPOINT_DAMAGED', `the checksum of ${what} is wrong`);
  }
}
