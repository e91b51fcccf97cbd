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
  /** Includes the optimizer's slots and the loss, so that other programs can continue training; false by default. */
  readonly includeOptimizer?: boolean;
}

/** Writes model.json and weight files, for tf.loadLayersModel, into the folder `place`. Replaces a model in that folder. */
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

/**
 * Loads a layers model.
 * @param place the URI or path of a model.json, or of the folder that contains it.
 */
export async function loadLayersModel({ tf, storage }: ModelWorld, place: string): Promise<tfjs.LayersModel> {
  return await tf.loadLayersModel(modelFilesHandler(tf, storage, uriOf(place)));
}
