import { createHash } from 'node:crypto';
import { z } from 'zod';
import { TonyError } from '../conf/errors.ts';
import type { Json } from './datasets/stream.ts';

/**
 * A checkpoint is a folder `step-N`:
 *
 *   tensors.bin     the tensors one after the other, without gaps, little-endian, in the order of the manifest
 *   manifest.json   { "sha256": of the text of `body`, "body": { ..., files: [length and sha256], tensors: [name, type, shape, place] } }
 *
 * The manifest is written last and the folder is renamed into place after that, so a folder called `step-N` was whole once.
 */
export const MANIFEST = 'manifest.json';
export const TENSORS = 'tensors.bin';

/** Where training stands, beside its tensors. */
export interface TrainingPosition {
  /** Optimizer steps that have been taken. */
  readonly step: number;
  readonly epoch: number;
  /** How many examples of this epoch, of all ranks together, have been used. */
  readonly examples: number;
  /** Of the order of the data and of everything random: random state is derived from it, the step and the rank. */
  readonly seed: number;
  /** The optimizer's own counter. */
  readonly iterations: number;
  /** Training is over. */
  readonly final: boolean;
  /** Where the dataset stands, if `fit` has one. */
  readonly data?: Json | undefined;
}

export interface StoredTensor {
  readonly name: string;
  readonly dtype: 'float32' | 'int32' | 'bool';
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

export interface Snapshot {
  readonly position: TrainingPosition;
  readonly tensors: readonly StoredTensor[];
}

const count = z.number().int().nonnegative();

const jsonValue = z.json();

const bodySchema = z.object({
  version: z.literal(1),
  applicationId: z.string(),
  generation: count,
  createdAt: z.string(),
  position: z.object({
    step: count,
    epoch: count,
    examples: count,
    seed: count,
    iterations: count,
    final: z.boolean(),
    data: jsonValue.optional(),
  }),
  files: z.array(z.object({ name: z.literal(TENSORS), bytes: count, sha256: z.string() })).length(1),
  tensors: z.array(
    z.object({ name: z.string(), dtype: z.enum(['float32', 'int32', 'bool']), shape: z.array(count), offset: count, bytes: count }),
  ),
});

export type Manifest = z.infer<typeof bodySchema>;

export function describeSnapshot(
  snapshot: Snapshot,
  origin: { readonly applicationId: string; readonly generation: number; readonly createdAt: string },
): { readonly manifest: Buffer; readonly data: readonly Uint8Array[] } {
  let offset = 0;
  const hash = createHash('sha256');
  const tensors = snapshot.tensors.map(({ name, dtype, shape, bytes }) => {
    const place = { name, dtype, shape: [...shape], offset, bytes: bytes.length };
    offset += bytes.length;
    hash.update(bytes);
    return place;
  });
  const { step, epoch, examples, seed, iterations, final, data } = snapshot.position;
  const body: Manifest = {
    version: 1,
    ...origin,
    // JSON leaves out what is undefined.
    position: { step, epoch, examples, seed, iterations, final, data: data as z.infer<typeof jsonValue> | undefined },
    files: [{ name: TENSORS, bytes: offset, sha256: hash.digest('hex') }],
    tensors,
  };
  const manifest = Buffer.from(`${JSON.stringify({ sha256: sha256(JSON.stringify(body)), body }, null, 1)}\n`);
  return { manifest, data: snapshot.tensors.map(({ bytes }) => bytes) };
}

/** @throws TonyError CHECKPOINT_DAMAGED saying what is wrong with it. */
export function parseManifest(bytes: Uint8Array, where: string): Manifest {
  let document: unknown;
  try {
    document = JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8'));
  } catch {
    throw new TonyError('CHECKPOINT_DAMAGED', `${where}/${MANIFEST} is no JSON`);
  }
  const outer = z.object({ sha256: z.string(), body: z.unknown() }).safeParse(document);
  if (!outer.success || sha256(JSON.stringify(outer.data.body)) !== outer.data.sha256) {
    throw new TonyError('CHECKPOINT_DAMAGED', `the checksum of ${where}/${MANIFEST} is wrong`);
  }
  const body = bodySchema.safeParse(outer.data.body);
  if (!body.success) {
    throw new TonyError('CHECKPOINT_DAMAGED', `${where}/${MANIFEST} is not as this version writes it`);
  }
  return body.data;
}

/** @throws TonyError CHECKPOINT_DAMAGED. */
export function parseTensors(manifest: Manifest, data: Uint8Array, where: string): StoredTensor[] {
  for (const file of manifest.files) {
    if (data.length !== file.bytes) {
      throw new TonyError('CHECKPOINT_DAMAGED', `${where}/${file.name} has ${data.length} bytes instead of ${file.bytes}`);
    }
    if (sha256(data) !== file.sha256) {
      throw new TonyError('CHECKPOINT_DAMAGED', `the checksum of ${where}/${file.name} is wrong`);
    }
  }
  return manifest.tensors.map(({ name, dtype, shape, offset, bytes }) => {
    const size = shape.reduce((product, dimension) => product * dimension, 1);
    if (offset + bytes > data.length || bytes !== size * (dtype === 'bool' ? 1 : 4)) {
      throw new TonyError('CHECKPOINT_DAMAGED', `${where}/${MANIFEST} gives ${name} an impossible place`);
    }
    return { name, dtype, shape, bytes: data.subarray(offset, offset + bytes) };
  });
}

function sha256(data: string | Uint8Array): string {
  return createHash('sha256').update(data).digest('hex');
}
