import { createHash } from 'node:crypto';
import type { io } from '@tensorflow/tfjs';
import * as z from 'zod';
import { TonyError } from '../../platform/errors.ts';
import { readIfStored } from '../../storage/read-if-stored.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri, nameOf, parentUri } from '../../storage/uri.ts';

/*
 * A model in TensorFlow.js format (tensorflow.org/js/guide/save_load) is a folder with these files:
 *
 *   model.json                       topology, and a manifest of the weights: names, types, shapes, files
 *   group1-shard1of2-1a2b3c4d.bin    the concatenated weights, little-endian, split into files of 4 MiB
 *
 * The file names contain a checksum of the content. A writer first adds the new weight files, then replaces model.json atomically, and
 * finally removes the previous weight files. model.json therefore always refers to matching weight files.
 */
const MODEL = 'model.json';
const SHARD = /^group1-shard\d+of\d+-[0-9a-f]{8}\.bin$/;
const SHARD_BYTES = 4 * 1024 * 1024;

/** The fields that layers models and graph models have in common. Other fields of model.json stay unchanged. */
const modelJson = z.looseObject({
  modelTopology: z.looseObject({}),
  weightsManifest: z
    .array(
      z.object({
        paths: z.array(z.string()),
        weights: z.array(z.looseObject({ name: z.string(), shape: z.array(z.number()), dtype: z.string() })),
      }),
    )
    .default([]),
});

/** Writes a model into the folder at `uri`. Replaces a model that is already there. */
export async function writeModelFiles(storage: Storage, uri: string, artifacts: io.ModelArtifacts): Promise<void> {
  const { weightData, weightSpecs = [], ...rest } = artifacts;
  const data = bytesOf(weightData);
  const count = Math.max(1, Math.ceil(data.length / SHARD_BYTES));
  const paths: string[] = [];
  for (let index = 0; index < count; index++) {
    const shard = data.subarray(index * SHARD_BYTES, (index + 1) * SHARD_BYTES);
    const checksum = createHash('sha256').update(shard).digest('hex').slice(0, 8);
    const path = `group1-shard${index + 1}of${count}-${checksum}.bin`;
    await storage.write(joinUri(uri, path), shard);
    paths.push(path);
  }
  const document = { ...rest, weightsManifest: [{ paths, weights: weightSpecs }] };
  await storage.write(joinUri(uri, MODEL), Buffer.from(JSON.stringify(document)));
  for (const { name, uri: file } of await storage.list(uri)) {
    if (SHARD.test(name) && !paths.includes(name)) {
      await storage.remove(file);
    }
  }
}

/**
 * Returns a handler with which tf.loadLayersModel and tf.loadGraphModel can load a model from storage. The model may come from another
 * program.
 * @param uri the URI of model.json or of its folder.
 */
export function modelFilesHandler(tf: { readonly io: typeof io }, storage: Storage, uri: string): io.IOHandler {
  return { load: async () => await readModelFiles(tf, storage, uri) };
}

/** @throws TonyError MODEL_UNREADABLE if model.json is invalid, or if a file is missing. */
export async function readModelFiles(tf: { readonly io: typeof io }, storage: Storage, uri: string): Promise<io.ModelArtifacts> {
  const [folder, file] = /\.json$/i.test(nameOf(uri)) ? [parentUri(uri), uri] : [uri, joinUri(uri, MODEL)];
  const content = await readIfStored(storage, file);
  if (content === null) {
    throw await missingModel(storage, uri);
  }
  const document = parse(content, file);
  return await tf.io.getModelArtifactsForJSON(document as unknown as io.ModelJSON, async () => {
    const buffers: ArrayBuffer[] = [];
    for (const path of document.weightsManifest.flatMap(({ paths }) => paths)) {
      const bytes = await readIfStored(storage, joinUri(folder, path));
      if (bytes === null) {
        throw new TonyError('MODEL_UNREADABLE', `${file} names the file ${path}, which does not exist`, {
          hint: 'Copy the whole folder of the model again.',
        });
      }
      buffers.push(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer);
    }
    const specs = document.weightsManifest.flatMap(({ weights }) => weights) as unknown as io.WeightsManifestEntry[];
    return [specs, tf.io.CompositeArrayBuffer.join(buffers)];
  });
}

/** Returns the error for a place without model.json. Its hint depends on the file or folder that is there instead. */
async function missingModel(storage: Storage, uri: string): Promise<TonyError> {
  if (/\.(keras|h5|hdf5)$/i.test(uri)) {
    return new TonyError('MODEL_UNREADABLE', `${uri} is a model in a format of Keras, which TensorFlow.js cannot read`, {
      hint: 'Convert it in Python: tony.models.save_tfjs(keras.saving.load_model(FILE), FOLDER).',
    });
  }
  const isSavedModel = (await storage.stat(joinUri(uri, 'saved_model.pb')).catch(() => null)) !== null;
  return new TonyError('MODEL_UNREADABLE', `${uri} contains no ${MODEL}`, {
    ...(isSavedModel && { hint: 'It contains a SavedModel: load it with loadSavedModel, which needs the native backend.' }),
  });
}

function parse(bytes: Uint8Array, file: string): z.infer<typeof modelJson> {
  let document: unknown;
  try {
    document = JSON.parse(Buffer.from(bytes).toString('utf8'));
  } catch {
    throw new TonyError('MODEL_UNREADABLE', `${file} is not valid JSON`);
  }
  const found = modelJson.safeParse(document);
  if (!found.success) {
    throw new TonyError(
      'MODEL_UNREADABLE',
      `${file} is not a TensorFlow.js model: its modelTopology or weightsManifest is missing or invalid`,
    );
  }
  return found.data;
}

function bytesOf(data: io.WeightData | undefined): Uint8Array {
  if (data === undefined) {
    return new Uint8Array(0);
  }
  const parts = Array.isArray(data) ? data : [data];
  const only = parts[0];
  return parts.length === 1 && only !== undefined ? new Uint8Array(only) : Buffer.concat(parts.map((part) => new Uint8Array(part)));
}
