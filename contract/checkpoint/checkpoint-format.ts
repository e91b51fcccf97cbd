import { createHash } from 'node:crypto';
import * as z from 'zod';
import { TonyError } from '../../platform/errors.ts';
import type { Json } from '../../platform/json-value.ts';

/**
 * A checkpoint is a `step-N` folder. Each process that holds part of the state writes one tensor file:
 *
 *   tensors-00000-of-00002.bin   consecutive tensors without gaps, little-endian
 *   tensors-00001-of-00002.bin
 *   manifest.json                { "sha256": hash of `body` as text, "body": { ..., files: [name, length], tensors: [name, type, shape,
 *                                file, offset, sha256] } }
 *
 * The writer writes the manifest last and then renames the folder to `step-N`, so every folder with such a name is complete. An object
 * store cannot rename folders: there, the tensor files are in a sub-folder, and the checkpoint is complete when the manifest exists.
 *
 * Each tensor has its own checksum, so a reader can verify the tensors that it needs. If several processes hold parts of a tensor, the
 * manifest lists each part with the index of its first number, and readers join the parts.
 */
export const MANIFEST = 'manifest.json';

export interface StoredTensor {
  readonly name: string;
  readonly dtype: 'float32' | 'int32' | 'bool';
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
  /**
   * If `bytes` contains only part of the tensor: the index in the flattened tensor at which that part begins. Tensors returned by a reader
   * are always whole.
   */
  readonly from?: number;
}

export interface TrainingSnapshot {
  readonly position: TrainingPosition;
  readonly tensors: readonly StoredTensor[];
}

export interface Origin {
  readonly jobId: string;
  readonly generation: number;
}

const count = z.number().int().nonnegative();
// The static type of z.json() is not compatible with `Json`.
const jsonValue = z.json() as unknown as z.ZodType<Json>;

const describedTensor = z.object({
  name: z.string(),
  dtype: z.enum(['float32', 'int32', 'bool']),
  shape: z.array(count),
  offset: count,
  bytes: count,
  from: count.optional(),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
});

const shardFile = z.object({ name: z.string().regex(/^tensors-\d{5}-of-\d{5}\.bin$/), bytes: count });

/** Describes a written file to the process that writes the manifest. Contains only JSON values. */
const shardDescription = shardFile.extend({ tensors: z.array(describedTensor) });

export type ShardDescription = Readonly<z.infer<typeof shardDescription>>;

export const trainingPosition = z.object({
  /** Number of optimizer steps taken so far, including those of earlier phases. */
  step: count,
  /** Name of the phase, and number of steps taken by earlier phases. */
  phase: z.object({ name: z.string(), start: count }),
  epoch: count,
  /** Number of examples that all ranks together have used in this epoch. */
  examples: count,
  /**
   * Seed for all random numbers, including those that determine the data order. A random number depends only on the seed, the step and the
   * rank.
   */
  seed: count,
  /** The optimizer's own step counter, which is 0 in custom loops. */
  iterations: count,
  final: z.boolean(),
  /** True if the loss or a weight is NaN or infinite. Training never resumes from such a checkpoint. */
  diverged: z.boolean().optional(),
  /** Position in the dataset, if `fit` trains on a dataset. */
  data: jsonValue.optional(),
  /** Metrics of the completed epochs, which `fit` returns as its history. */
  history: jsonValue.optional(),
  /** The state of the program: of the callbacks of `fit`, or of a custom loop. Excludes variables. */
  state: jsonValue.optional(),
});

/** The training state, excluding the tensors. */
export type TrainingPosition = Readonly<z.infer<typeof trainingPosition>>;

const tensorPlace = describedTensor.extend({ file: z.string() });

export type TensorPlace = Readonly<z.infer<typeof tensorPlace>>;

const bodySchema = z.object({
  version: z.literal(2),
  jobId: z.string(),
  generation: count,
  createdAt: z.string(),
  position: trainingPosition,
  files: z.array(shardFile),
  /** Name of the sub-folder with the tensor files. Absent if the files are in the same folder as the manifest. */
  folder: z
    .string()
    .regex(/^\w[\w.-]*$/)
    .optional(),
  /** The location of each tensor, in file order. */
  tensors: z.array(tensorPlace),
});

export type Manifest = Readonly<z.infer<typeof bodySchema>>;

export function shardName(index: number, shards: number): string {
  const digits = (value: number) => String(value).padStart(5, '0');
  return `tensors-${digits(index)}-of-${digits(shards)}.bin`;
}

export function encodeManifest(
  position: TrainingPosition,
  shards: readonly ShardDescription[],
  origin: Origin & { readonly createdAt: string; readonly folder?: string | undefined },
): Buffer {
  const { jobId, generation, createdAt, folder } = origin;
  const body: Manifest = {
    version: 2,
    jobId,
    generation,
    createdAt,
    position: trainingPosition.parse(position),
    files: shards.map(({ name, bytes }) => ({ name, bytes })),
    ...(folder !== undefined && { folder }),
    tensors: shards.flatMap(({ name: file, tensors }) => tensors.map((tensor) => ({ ...tensor, file }))),
  };
  return Buffer.from(`${JSON.stringify({ sha256: sha256(JSON.stringify(body)), body }, null, 1)}\n`);
}

/**
 * Parses and verifies the contents of manifest.json.
 * @throws TonyError CHECKPOINT_INVALID.
 */
export function parseManifest(bytes: Uint8Array, where: string): Manifest {
  let document: unknown;
  try {
    document = JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8'));
  } catch {
    throw new TonyError('CHECKPOINT_INVALID', `${where}/${MANIFEST} is not valid JSON`);
  }
  const outer = z.object({ sha256: z.string(), body: z.unknown() }).safeParse(document);
  if (!outer.success || sha256(JSON.stringify(outer.data.body)) !== outer.data.sha256) {
    throw new TonyError('CHECKPOINT_INVALID', `the checksum of ${where}/${MANIFEST} is wrong`);
  }
  const body = bodySchema.safeParse(outer.data.body);
  if (!body.success) {
    throw new TonyError('CHECKPOINT_INVALID', `${where}/${MANIFEST} has an unknown format`);
  }
  checkPlaces(body.data, where);
  return body.data;
}

/** Verifies that the tensors fill each file without gaps or overlaps. */
function checkPlaces({ files, tensors }: Manifest, where: string): void {
  const ends = new Map(files.map(({ name }) => [name, 0]));
  for (const { name, file, offset, bytes } of tensors) {
    if (offset !== ends.get(file)) {
      throw new TonyError('CHECKPOINT_INVALID', `${where}/${MANIFEST} lists an impossible position for ${name}`);
    }
    ends.set(file, offset + bytes);
  }
  for (const { name, bytes } of files) {
    if (ends.get(name) !== bytes) {
      throw new TonyError('CHECKPOINT_INVALID', `${where}/${MANIFEST} does not describe the contents of ${name}`);
    }
  }
  const broken = missingOrRepeated(tensors);
  if (broken !== null) {
    throw new TonyError('CHECKPOINT_INVALID', `${where}/${MANIFEST} does not contain ${broken} completely and exactly once`);
  }
}

/** Returns the name of the first tensor whose parts leave a gap or overlap, or null if every tensor is complete. */
export function missingOrRepeated(places: readonly Pick<TensorPlace, 'name' | 'dtype' | 'shape' | 'bytes' | 'from'>[]): string | null {
  for (const [name, parts] of byName(places)) {
    let end = 0;
    for (const part of parts) {
      // A repeated empty tensor passes this check, but the check after the loop detects it.
      if ((part.from ?? 0) * bytesEach(part.dtype) !== end || part.shape.join() !== parts[0]?.shape.join()) {
        return name;
      }
      end += part.bytes;
    }
    const { dtype, shape } = parts[0] as (typeof parts)[number];
    if (end !== byteLength(dtype, shape) || (parts.length > 1 && end === 0)) {
      return name;
    }
  }
  return null;
}

/** Groups the parts by tensor name, and sorts each tensor's parts by position. */
export function byName<T extends { readonly name: string; readonly from?: number | undefined }>(places: readonly T[]): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const place of places) {
    const group = groups.get(place.name);
    if (group === undefined) {
      groups.set(place.name, [place]);
    } else {
      group.push(place);
    }
  }
  for (const group of groups.values()) {
    group.sort((a, b) => (a.from ?? 0) - (b.from ?? 0));
  }
  return groups;
}

function bytesEach(dtype: StoredTensor['dtype']): number {
  return dtype === 'bool' ? 1 : 4;
}

function byteLength(dtype: StoredTensor['dtype'], shape: readonly number[]): number {
  return shape.reduce((product, dimension) => product * dimension, bytesEach(dtype));
}

function sha256(data: string): string {
  return createHash('sha256').update(data).digest('hex');
}
