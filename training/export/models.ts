import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../conf/errors.ts';
import type { Storage } from '../../storage/storage.ts';
import { nameOf, parentUri } from '../../storage/uri.ts';
import { CheckpointStore, type StoredCheckpoint } from '../checkpoint-store.ts';
import { weightsOf } from '../compiled-model.ts';
import { restoreWeights } from '../training-state.ts';
import { exportGraphModel, loadGraphModel } from './graph-model.ts';
import { type ExportLayersOptions, exportLayersModel, loadLayersModel } from './layers-model.ts';
import { type WarmStart, type WarmStartOptions, warmStart } from './warm-start.ts';

export interface LoadedCheckpoint {
  readonly uri: string;
  readonly step: number;
  readonly epoch: number;
  readonly final: boolean;
}

interface ModelsParts {
  readonly tf: typeof tfjs;
  readonly storage: Storage;
  /** The job's own checkpoints, if it has any. */
  readonly store: CheckpointStore | null;
  /** A place as users name it, as a URI. */
  readonly uriOf: (place: string) => string;
  readonly onNotice: (message: string) => void;
}

/** Models on their way in and out: places are hdfs:// and file:// URIs, or paths. */
export class Models {
  readonly #parts: ModelsParts;

  constructor(parts: ModelsParts) {
    this.#parts = parts;
  }

  /** Writes a model as tf.loadLayersModel reads it (model.json and files of weights) into a folder; one that is there is replaced. */
  async exportLayersModel(model: tfjs.LayersModel, folder: string, options: ExportLayersOptions = {}): Promise<void> {
    await exportLayersModel(this.#parts, model, this.#parts.uriOf(folder), options);
  }

  /**
   * Writes a model as tf.loadGraphModel reads it: a graph of TensorFlow's operations, for prediction alone. Only the number of examples may be
   * free; the graph's predictions are compared with the model's before it is written.
   * @throws TonyError MODEL_NOT_EXPORTABLE naming the layer that cannot be part of such a graph.
   */
  async exportGraphModel(model: tfjs.LayersModel, folder: string): Promise<void> {
    await exportGraphModel(this.#parts, model, this.#parts.uriOf(folder));
  }

  /** @param place a folder with a model.json, or that file. */
  async loadLayersModel(place: string): Promise<tfjs.LayersModel> {
    return await loadLayersModel(this.#parts, this.#parts.uriOf(place));
  }

  /** @param place a folder with a model.json, or that file. */
  async loadGraphModel(place: string): Promise<tfjs.GraphModel> {
    return await loadGraphModel(this.#parts, this.#parts.uriOf(place));
  }

  /**
   * Puts a checkpoint's weights into a model of the same shape.
   * @param which the newest good one of this job, the one that its evaluator has found best, or the place of one (`.../step-100`) or of a
   * folder of them, of which the newest good one is taken.
   * @throws TonyError CHECKPOINT_MISFIT, CHECKPOINT_DAMAGED, or NOT_FOUND when there is none.
   */
  async loadCheckpoint(which: 'newest' | 'best' | (string & {}), model: tfjs.LayersModel): Promise<LoadedCheckpoint> {
    const stored = await this.#find(which);
    restoreWeights(this.#parts.tf, weightsOf(model), stored.tensors, stored.uri);
    const { step, epoch, final } = stored.position;
    return { uri: stored.uri, step, epoch, final };
  }

  /**
   * Gives a model the weights of another one, as far as they fit, and says what it has taken and what not. To be called before `fit`, by every
   * rank or by rank 0 alone; a checkpoint of the job itself goes before.
   * @param from the place of a model.json (a LayersModel or a GraphModel of any writer) or of a checkpoint; 'newest' or 'best'; or a model.
   * @throws TonyError WARM_START_MISFIT when nothing fits, or when a shape differs and `skipMismatched` was not told.
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
    const kept = left.length === 0 ? '' : `; as they were: ${left.map(({ name, why }) => `${name} (${why})`).join(', ')}`;
    const spare = unused.length === 0 ? '' : `; not taken: ${unused.join(', ')}`;
    const where = typeof source === 'string' ? source : 'another model';
    this.#parts.onNotice(`${taken.length} of ${taken.length + left.length} weights begin with those of ${where}${kept}${spare}`);
    return result;
  }

  async #find(which: string): Promise<StoredCheckpoint> {
    const { storage, store, uriOf, onNotice } = this.#parts;
    if (which === 'newest' || which === 'best') {
      if (store === null) {
        throw new TonyError('USAGE', 'there is no checkpoint folder', { hint: 'Pass join({ checkpointDir }) when running alone.' });
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
    throw new TonyError('NOT_FOUND', `there is no checkpoint in ${store.dir}`);
  }
  return found;
}

async function bestOf(store: CheckpointStore): Promise<StoredCheckpoint> {
  const best = await store.best();
  if (best === null) {
    throw new TonyError('NOT_FOUND', `no checkpoint in ${store.dir} has been found best`, { hint: 'An evaluator has to have marked one.' });
  }
  return await store.read(best.step);
}
