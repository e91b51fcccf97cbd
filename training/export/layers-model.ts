import type * as tfjs from '@tensorflow/tfjs';
import type { Storage } from '../../storage/storage.ts';
import { modelFilesHandler, writeModelFiles } from './model-files.ts';

/** What models are read and written with: a `Cluster`, for one. */
export interface ModelWorld {
  readonly tf: typeof tfjs;
  readonly storage: Storage;
}

export interface ExportLayersOptions {
  /** The optimizer's slots and the loss as well, so that training may go on anywhere; false unless told. */
  readonly includeOptimizer?: boolean;
}

/** Writes a model as tf.loadLayersModel reads it (model.json and files of weights) into the folder `uri`; one that is there is replaced. */
export async function exportLayersModel(
  { tf, storage }: ModelWorld,
  model: tfjs.LayersModel,
  uri: string,
  { includeOptimizer = false }: ExportLayersOptions = {},
): Promise<void> {
  const handler = tf.io.withSaveHandler(async (artifacts) => {
    await writeModelFiles(storage, uri, artifacts);
    return { modelArtifactsInfo: { dateSaved: new Date(), modelTopologyType: 'JSON' } };
  });
  await model.save(handler, { includeOptimizer });
}

/** @param uri a folder with a model.json, or that file. */
export async function loadLayersModel({ tf, storage }: ModelWorld, uri: string): Promise<tfjs.LayersModel> {
  return await tf.loadLayersModel(modelFilesHandler(tf, storage, uri));
}
