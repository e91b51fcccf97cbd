import type * as tfjs from '@tensorflow/tfjs';
import type { Storage } from '../../storage/storage.ts';
import { modelFilesHandler, writeModelFiles } from './model-files.ts';

export interface ModelWorld {
  readonly tf: typeof tfjs;
  readonly storage: Storage;
}

export interface ExportLayersOptions {
  /** Whether to export the optimizer's slots and the loss as well, so that another program can continue training. Default: false. */
  readonly includeOptimizer?: boolean;
}

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

export async function loadLayersModel({ tf, storage }: ModelWorld, uri: string): Promise<tfjs.LayersModel> {
  return await tf.loadLayersModel(modelFilesHandler(tf, storage, uri));
}
