import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../platform/errors.ts';
import type { Storage } from '../../storage/storage.ts';
import { nameOf, parentUri } from '../../storage/uri.ts';
import { CheckpointStore, type LoadedCheckpoint, loadedCheckpoint, type StoredCheckpoint } from '../checkpoint/checkpoint-store.ts';
import { weightsOf } from '../model/compiled-model.ts';
import { restoreWeights } from '../model/training-state.ts';
import { exportGraphModel, loadGraphModel } from './graph-model.ts';
import { type ExportLayersOptions, exportLayersModel, loadLayersModel } from './layers-model.ts';
import { exportSavedModel, type LoadSavedModelOptions, loadSavedModel, type SavedModel } from './saved-model.ts';
import { type WarmStart, type WarmStartOptions, warmStart } from './warm-start.ts';

interface ModelsParts {
  readonly tf: typeof tfjs;
  readonly storage: Storage;
  /** The job's own checkpoints; null if there are none. */
  readonly store: CheckpointStore | null;
  /** Converts a path or URI from the user to a URI. */
  readonly uriOf: (place: string) => string;
  /** Like `uriOf`, for outputs: resolves relative paths against the job's output folder. */
  readonly outputUriOf: (place: string) => string;
  readonly onNotice: (message: string) => void;
}

/**
 * Exports and loads models. A place is an hdfs:// or file:// URI, or a path. Relative export paths are resolved against the job's output
 * folder.
 */
export class Models {
  readonly #parts: ModelsParts;

  constructor(parts: ModelsParts) {
    this.#parts = parts;
  }

  /** Writes model.json and weight files, for tf.loadLayersModel, into a folder. Replaces a model in that folder. */
  async exportLayersModel(model: tfjs.LayersModel, folder: string, options: ExportLayersOptions = {}): Promise<void> {
    await exportLayersModel(this.#parts, model, this.#parts.outputUriOf(folder), options);
  }

  /**
   * Writes a graph model, for tf.loadGraphModel, into a folder. A graph model consists of TensorFlow's operations and can only predict. The
   * number of examples stays variable; all other dimensions must be fixed. Compares the graph's predictions with the model's predictions
   * before writing.
   * @throws TonyError MODEL_NOT_EXPORTABLE. The message names the layer that the graph cannot represent.
   */
  async exportGraphModel(model: tfjs.LayersModel, folder: string): Promise<void> {
    await exportGraphModel(this.#parts, model, this.#parts.outputUriOf(folder));
  }

  /**
   * Loads a layers model.
   * @param place a model.json, or the folder that contains it.
   */
  async loadLayersModel(place: string): Promise<tfjs.LayersModel> {
    return await loadLayersModel(this.#parts, this.#parts.uriOf(place));
  }

  /**
   * Loads a graph model.
   * @param place a model.json, or the folder that contains it.
   */
  async loadGraphModel(place: string): Promise<tfjs.GraphModel> {
    return await loadGraphModel(this.#parts, this.#parts.uriOf(place));
  }

  /**
   * Writes a SavedModel of TensorFlow, for TensorFlow Serving, Keras and other programs, into a folder. It computes the same graph as
   * `exportGraphModel`, with the signature `serving_default`. Replaces a SavedModel that this method has written there.
   * @throws TonyError MODEL_NOT_EXPORTABLE. The message names the layer that the graph cannot represent.
   */
  async exportSavedModel(model: tfjs.LayersModel, folder: string): Promise<void> {
    await exportSavedModel(this.#parts, model, this.#parts.outputUriOf(folder));
  }

  /**
   * Loads a SavedModel of TensorFlow for predictions, for example one that Keras has exported. Requires the native backend.
   * @param place the folder that contains saved_model.pb.
   * @throws TonyError BACKEND_UNFIT on another backend, MODEL_UNREADABLE if TensorFlow or TensorFlow.js cannot load the SavedModel.
   */
  async loadSavedModel(place: string, options: LoadSavedModelOptions = {}): Promise<SavedModel> {
    return await loadSavedModel(this.#parts, this.#parts.uriOf(place), options);
  }

  /**
   * Copies the weights of a checkpoint into a model with the same weight shapes.
   * @param which `newest`: the newest valid checkpoint of this job. `best`: the checkpoint that the job's evaluator has marked as the best.
   *   Any other string is the place of a checkpoint (`.../step-100`), or of a checkpoint folder, whose newest valid checkpoint is loaded.
   * @param name the name of the model, for a checkpoint of a loop with several models.
   * @throws TonyError CHECKPOINT_MISFIT, CHECKPOINT_DAMAGED, or NOT_FOUND if no checkpoint exists.
   */
  async loadCheckpoint(which: 'newest' | 'best' | (string & {}), model: tfjs.LayersModel, name?: string): Promise<LoadedCheckpoint> {
    const stored = await this.#find(which);
    restoreWeights(this.#parts.tf, weightsOf(model), stored.tensors, stored.uri, name);
    return loadedCheckpoint(stored);
  }

  /**
   * Copies the matching weights of another model into `model`, and reports which weights it copied. Call it before `fit`, on every rank or
   * only on rank 0. If the job resumes from its own checkpoint, that checkpoint takes precedence.
   * @param from the place of a model.json (a LayersModel or a GraphModel from any program, also with quantised weights), the place of a
   *   checkpoint, 'newest' or 'best' as in `loadCheckpoint`, or a model in memory. Its optimizer state is ignored.
   * @throws TonyError WARM_START_MISFIT, without changing the model, when no weight matches, or when a type or shape differs and
   *   `skipMismatched` is not set.
   */
  async warmStart(
    model: tfjs.LayersModel,
    from: 'newest' | 'best' | (string & {}) | tfjs.LayersModel | tfjs.GraphModel,
    options: WarmStartOptions = {},
  ): Promise<WarmStart> {
    const source =
      from === 'newest' || from === 'best' ? (await this.#find(from)).uri : typeof from === 'string' ? this.#parts.uriOf(from) : from;
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
    if (which === 'newest' || which === 'best') {
      if (store === null) {
        throw new TonyError('USAGE', 'no checkpoint folder is configured', {
          hint: 'If the program runs outside of a job, pass join({ checkpointDir }).',
        });
      }
      return which === 'newest' ? await newestOf(store, onNotice) : await bestOf(store);
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
