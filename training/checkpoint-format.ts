import { createHash } from 'node:crypto';
import { z } from 'zod';
import { TonyError } from '../conf/errors.ts';
import type { Json } from './datasets/stream.ts';

/**
 * A checkpoint is a folder `step-N`. Each process that holds a part of the state writes one file:
 *
 *   tensors-00000-of-00002.bin   tensors one after the other, without gaps, little-endian
 *   tensors-00001-of-00002.bin
 *   manifest.json                { "sha256": of the text of `body`, "body": { ..., files: [name, length], tensors: [name, type, shape, file,
 *                                place, sha256] } }
 *
 * The manifest is written last and the folder is renamed into place after that, so a folder called `step-N` was whole once. Each tensor has
 * its own checksum: whoever needs some of them reads and verifies no more than those. A tensor whose parts several processes hold is there
 * in parts, each with its first number; readers put them together.
 *
 * Version 1, which is still read, had one file tensors.bin, and its checksum in place of those of the tensors.
 */
export const MANIFEST = 'manifest.json';

const FIRST_VERSION_FILE = 'tensors.bin';

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
  /**
   * For whoever holds and writes a part of a tensor only: the first number, of the tensor laid out flat, that `bytes` begins with. Whoever
   * reads a checkpoint gets whole tensors.
   */
  readonly from?: number;
}

export interface Snapshot {
  readonly position: TrainingPosition;
  readonly tensors: readonly StoredTensor[];
}

/** Whose checkpoint it is. */
export interface Origin {
  readonly applicationId: string;
  readonly generation: number;
}

const count = z.number().int().nonnegative();
const jsonValue = z.json();
const sha256Text = z.string().regex(/^[0-9a-f]{64}$/);

const tensorPlace = z.object({
  name: z.string(),
  dtype: z.enum(['float32', 'int32', 'bool']),
  shape: z.array(count),
  /** In its file. */
  offset: count,
  bytes: count,
});

/** `from`: of a part of a tensor, see StoredTensor. */
const describedTensor = tensorPlace.extend({ sha256: sha256Text, from: count.optional() });

const shardFile = z.object({ name: z.string().regex(/^tensors-\d{5}-of-\d{5}\.bin$/), bytes: count });

/** What the writer of one file tells the one who writes the manifest. It may travel as JSON. */
export const shardDescription = shardFile.extend({ tensors: z.array(describedTensor) });

export type ShardDescription = Readonly<z.infer<typeof shardDescription>>;

/** See TrainingPosition. */
export const trainingPosition = z.object({
  step: count,
  epoch: count,
  examples: count,
  seed: count,
  iterations: count,
  final: z.boolean(),
  data: jsonValue.optional(),
});

const head = {
  applicationId: z.string(),
  generation: count,
  createdAt: z.string(),
  position: trainingPosition,
};

const bodySchema = z.discriminatedUnion('version', [
  z.object({
    version: z.literal(1),
    ...head,
    files: z.tuple([z.object({ name: z.literal(FIRST_VERSION_FILE), bytes: count, sha256: sha256Text })]),
    tensors: z.array(tensorPlace),
  }),
  z.object({
    version: z.literal(2),
    ...head,
    files: z.array(shardFile),
    tensors: z.array(describedTensor.extend({ file: z.string() })),
  }),
]);

type Body = z.infer<typeof bodySchema>;

export interface TensorPlace {
  readonly name: string;
  readonly dtype: StoredTensor['dtype'];
  readonly shape: readonly number[];
  readonly file: string;
  readonly offset: number;
  readonly bytes: number;
  /** See StoredTensor. */
  readonly from?: number | undefined;
  /** null in version 1, where the file has one. */
  readonly sha256: string | null;
}

export interface CheckpointFile {
  readonly name: string;
  readonly bytes: number;
  /** null from version 2 on, where the tensors have theirs. */
  readonly sha256: string | null;
}

/** What a checkpoint says of itself, of whichever version. */
export interface Manifest extends Origin {
  readonly createdAt: string;
  readonly position: TrainingPosition;
  readonly files: readonly CheckpointFile[];
  /** Those of one file stand together, in the file's order. */
  readonly tensors: readonly TensorPlace[];
}

export function shardName(index: number, shards: number): string {
  const digits = (value: number) => String(value).padStart(5, '0');
  return `tensors-${digits(index)}-of-${digits(shards)}.bin`;
}

export function encodeManifest(
  position: TrainingPosition,
  shards: readonly ShardDescription[],
  origin: Origin & { readonly createdAt: string },
): Buffer {
  const { step, epoch, examples, seed, iterations, final, data } = position;
  const { applicationId, generation, createdAt } = origin;
  const body: Body = {
    version: 2,
    applicationId,
    generation,
    createdAt,
    // JSON leaves out what is undefined.
    position: { step, epoch, examples, seed, iterations, final, data: data as z.infer<typeof jsonValue> | undefined },
    files: shards.map(({ name, bytes }) => ({ name, bytes })),
    tensors: shards.flatMap(({ name: file, tensors }) => tensors.map((tensor) => ({ ...tensor, file }))),
  };
  return Buffer.from(`${JSON.stringify({ sha256: sha256(JSON.stringify(body)), body }, null, 1)}\n`);
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
  const manifest = unified(body.data);
  checkPlaces(manifest, where);
  return manifest;
}

function unified(body: Body): Manifest {
  const { applicationId, generation, createdAt, position } = body;
  const common = { applicationId, generation, createdAt, position };
  return body.version === 1
    ? { ...common, files: body.files, tensors: body.tensors.map((tensor) => ({ ...tensor, file: FIRST_VERSION_FILE, sha256: null })) }
    : { ...common, files: body.files.map((file) => ({ ...file, sha256: null })), tensors: body.tensors };
}

/** Every tensor lies where the one before it ends, and the files hold nothing else. */
function checkPlaces({ files, tensors }: Manifest, where: string): void {
  const ends = new Map(files.map(({ name }) => [name, 0]));
  for (const { name, file, offset, bytes } of tensors) {
    if (offset !== ends.get(file)) {
      throw new TonyError('CHECKPOINT_DAMAGED', `${where}/${MANIFEST} gives ${name} an impossible place`);
    }
    ends.set(file, offset + bytes);
  }
  for (const { name, bytes } of files) {
    if (ends.get(name) !== bytes) {
      throw new TonyError('CHECKPOINT_DAMAGED', `${where}/${MANIFEST} does not tell what is in ${name}`);
    }
  }
  const broken = notThereOnce(tensors);
  if (broken !== null) {
    throw new TonyError('CHECKPOINT_DAMAGED', `${where}/${MANIFEST} does not have ${broken} once as a whole`);
  }
}

/** The first tensor of which not every number is there exactly once; null when all are. */
export function notThereOnce(places: readonly Pick<TensorPlace, 'name' | 'dtype' | 'shape' | 'bytes' | 'from'>[]): string | null {
  for (const [name, parts] of byName(places)) {
    let end = 0;
    for (const part of parts) {
      // An empty tensor has no number that could be there twice.
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

/** Parts of one tensor in their order; tensors in the order of their first parts. */
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
