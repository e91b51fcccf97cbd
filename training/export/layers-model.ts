import type * as tfjs from '@tensorflow/tfjs';
import type { Storage } from '../../storage/storage.ts';
import { uriOf } from '../process/uri-of.ts';
import { modelFilesHandler, writeModelFiles } from './model-files.ts';

/** The dependencies for reading and writing models, for example a `Cluster`. */
export interface ModelWorld {
  readonly tf: typeof tfjs;
  readonly storage: Storage;
}

export interface ExportLayersOptions {
  /** Includes the optimizer's slots and the loss, so that training can continue anywhere; false by default. */
  readonly includeOptimizer?: boolean;
}

/** Writes the model for tf.loadLayersModel (model.json and weight files) into the folder `place`, and replaces an existing one. */
export async function exportLayersModel(
  { tf, storage }: ModelWorld,
  model: tfjs.LayersModel,
  place: string,
  { includeOptimizer = false }: ExportLayersOptions = {},
): Promise<void> {
  const handler = tf.io.withSaveHandler(async (artifacts) => {
    await writeModelFiles(storage, uriOf(place), artifacts);
    return { modelArtifactsInfo: { dateSaved: new Date(), modelTopologyType: 'JSON' } };
  });
  await model.save(handler, { includeOptimizer });
}

/** @param place URI or path of a folder with a model.json, or of that file. */
export async function loadLayersModel({ tf, storage }: ModelWorld, place: string): Promise<tfjs.LayersModel> {
  return await tf.loadLayersModel(modelFilesHandler(tf, storage, uriOf(place)));
}
