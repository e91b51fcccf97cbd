import type * as tfjs from '@tensorflow/tfjs';
import {
  CheckpointStore,
  type LoadedCheckpoint,
  loadedCheckpoint,
  type StoredCheckpoint,
} from '../../contract/checkpoint/checkpoint-store.ts';
import { TonyError } from '../../platform/errors.ts';
import type { Storage } from '../../storage/storage.ts';
import { nameOf, parentUri } from '../../storage/uri.ts';
import { weightsOf } from '../model/compiled-model.ts';
import { restoreWeights } from '../model/training-state.ts';
import { exportGraphModel, loadGraphModel } from './graph-model.ts';
import { type ExportLayersOptions, exportLayersModel, loadLayersModel } from './layers-model.ts';
import { exportSavedModel, type LoadSavedModelOptions, loadSavedModel, type SavedModel } from './saved-model.ts';
import { type WarmStart, type WarmStartOptions, warmStart } from './warm-start.ts';

interface ModelsParts {
  readonly tf: typeof tfjs;
  readonly storage: Storage;
  /** The job's own checkpoints, or null if the job does not write checkpoints. */
  readonly store: CheckpointStore | null;
  /** Converts a path or a URI from the user's program to a URI. */
  readonly uriOf: (place: string) => string;
  /** Converts an output path or URI to a URI. A relative path is relative to the job's output folder. */
  readonly outputUriOf: (place: string) => string;
  readonly onNotice: (message: string) => void;
}

/** Exports and loads models. A `place` is a URI or a path. Exports with a relative path go to the job's output folder. */
export class Models {
  readonly #parts: ModelsParts;

  constructor(parts: ModelsParts) {
    this.#parts = parts;
  }

  /** Writes a layers model for tf.loadLayersModel into a folder: model.json and weight files. Replaces a model that is already there. */
  async exportLayersModel(model: tfjs.LayersModel, folder: string, options: ExportLayersOptions = {}): Promise<void> {
    await exportLayersModel(this.#parts, model, this.#parts.outputUriOf(folder), options);
  }

  /**
   * Writes a graph model for tf.loadGraphModel into a folder. A graph model consists of TensorFlow's operations and can only predict. The
   * number of examples may vary, but all other dimensions must be fixed. Verifies first that the graph and the model make the same
   * predictions.
   * @throws TonyError MODEL_UNSUPPORTED with the name of the layer that the graph cannot represent.
   */
  async exportGraphModel(model: tfjs.LayersModel, folder: string): Promise<void> {
    await exportGraphModel(this.#parts, model, this.#parts.outputUriOf(folder));
  }

  /**
   * Loads a layers model.
   * @param place the model.json, or the folder that contains it.
   */
  async loadLayersModel(place: string): Promise<tfjs.LayersModel> {
    return await loadLayersModel(this.#parts, this.#parts.uriOf(place));
  }

  /**
   * Loads a graph model.
   * @param place the model.json, or the folder that contains it.
   */
  async loadGraphModel(place: string): Promise<tfjs.GraphModel> {
    return await loadGraphModel(this.#parts, this.#parts.uriOf(place));
  }

  /**
   * Writes a TensorFlow SavedModel into a folder, for TensorFlow Serving, Keras and other programs. The SavedModel has the
   * `serving_default` signature and contains the same graph as a graph model. Replaces a SavedModel written earlier by this method.
   * @throws TonyError MODEL_UNSUPPORTED with the name of the layer that the graph cannot represent.
   */
  async exportSavedModel(model: tfjs.LayersModel, folder: string): Promise<void> {
    await exportSavedModel(this.#parts, model, this.#parts.outputUriOf(folder));
  }

  /**
   * Loads a TensorFlow SavedModel for predictions, for example one exported by Keras. Requires the native backend.
   * @param place the folder that contains saved_model.pb.
   * @throws TonyError BACKEND_UNSUPPORTED if the backend is not native, or MODEL_UNREADABLE if the SavedModel cannot be loaded.
   */
  async loadSavedModel(place: string, options: LoadSavedModelOptions = {}): Promise<SavedModel> {
    return await loadSavedModel(this.#parts, this.#parts.uriOf(place), options);
  }

  /**
   * Copies a checkpoint's weights to a model with the same weight shapes.
   * @param which `latest` for the job's newest valid checkpoint, `best` for the checkpoint marked as the best by the evaluator, or the URI
   * or path of a checkpoint (`.../step-100`) or of a checkpoint folder. From a folder, the newest valid checkpoint is loaded.
   * @param name the model's name in the training loop. Only needed if the loop trains several models.
   * @throws TonyError CHECKPOINT_MISMATCH, CHECKPOINT_INVALID, or NOT_FOUND if there is no checkpoint.
   */
  async loadCheckpoint(which: 'latest' | 'best' | (string & {}), model: tfjs.LayersModel, name?: string): Promise<LoadedCheckpoint> {
    const stored = await this.#find(which);
    restoreWeights(this.#parts.tf, weightsOf(model), stored.tensors, stored.uri, name);
    return loadedCheckpoint(stored);
  }

  /**
   * Copies matching weights from another model to `model`, and reports which ones. Must be called before `fit`, on every rank or only on
   * rank 0. If the job has its own checkpoint, `fit` replaces these weights.
   * @param from the URI or path of a model.json or of a checkpoint, `latest` or `best` as in `loadCheckpoint`, or a model in memory. A
   * model.json may be a LayersModel or a GraphModel from any program, even with quantised weights. Optimizer state is ignored.
   * @throws TonyError WARM_START_MISMATCH if no weight matches, or if a type or shape differs without `skipMismatched`. The model is then
   * unchanged.
   */
  async warmStart(
    model: tfjs.LayersModel,
    from: 'latest' | 'best' | (string & {}) | tfjs.LayersModel | tfjs.GraphModel,
    options: WarmStartOptions = {},
  ): Promise<WarmStart> {
    const source =
      from === 'latest' || from === 'best' ? (await this.#find(from)).uri : typeof from === 'string' ? this.#parts.uriOf(from) : from;
    const result = await warmStart(this.#parts, model, source, options);
    const { taken, left, unused } = result;
    const kept = left.length === 0 ? '' : `; unchanged: ${left.map(({ name, why }) => `${name} (${why})`).join(', ')}`;
    const spare = unused.length === 0 ? '' : `; unused weights of the source: ${unused.join(', ')}`;
    const where = typeof source === 'string' ? source : 'another model';
    this.#parts.onNotice(`copied ${taken.length} of ${taken.length + left.length} weights from ${where}${kept}${spare}`);
    return result;
  }

  async #find(which: string): Promise<StoredCheckpoint> {
    const { storage, store, uriOf, onNotice } = this.#parts;
    if (which === 'latest' || which === 'best') {
      if (store === null) {
        throw new TonyError('USAGE', 'no checkpoint folder is configured', {
          hint: 'If the program runs outside of a job, pass join({ checkpointDir }).',
        });
      }
      return which === 'latest' ? await newestOf(store, onNotice) : await bestOf(store);
    }
    const uri = uriOf(which);
    const [, step] = /^step-(\d+)$/.exec(nameOf(uri)) ?? [];
    return step === undefined
      ? await newestOf(new CheckpointStore(storage, uri), onNotice)
      : await new CheckpointStore(storage, parentUri(uri)).read(Number(step));
  }
}

async function newestOf(store: CheckpointStore, onNotice: (message: string) => void): Promise<StoredCheckpoint> {
  const found = await store.newest(onNotice);
  if (found === null) {
    throw new TonyError('NOT_FOUND', `${store.dir} contains no checkpoint`);
  }
  return found;
}

async function bestOf(store: CheckpointStore): Promise<StoredCheckpoint> {
  const best = await store.marks.best();
  if (best === null) {
    throw new TonyError('NOT_FOUND', `no checkpoint in ${store.dir} is marked as the best`, {
      hint: 'An evaluator marks the best checkpoint.',
    });
  }
  return await store.read(best.step);
}
