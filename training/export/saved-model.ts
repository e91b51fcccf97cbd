import { createHash } from 'node:crypto';
import type * as tfjs from '@tensorflow/tfjs';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { downloadFolder } from '../../storage/copy-files.ts';
import { joinUri } from '../../storage/uri.ts';
import { createScratchFolder, removeScratchFolder } from '../data/local-copy/scratch-folder.ts';
import { graphOf } from './graph-model.ts';
import type { ModelWorld } from './layers-model.ts';
import { encodeSavedModel } from './saved-model-file.ts';

const FILE = 'saved_model.pb';

export async function exportSavedModel(world: ModelWorld, model: tfjs.LayersModel, uri: string): Promise<void> {
  const file = encodeSavedModel(await graphOf(world.tf, model));
  if ((await world.storage.stat(joinUri(uri, 'variables'))) !== null) {
    throw new TonyError('ALREADY_EXISTS', `${uri} contains a SavedModel with variables`, { hint: 'Remove it, or choose another folder.' });
  }
  await world.storage.write(joinUri(uri, FILE), file);
}

export interface LoadSavedModelOptions {
  /** Name of the SavedModel function to call. Default: `serving_default`. */
  readonly signature?: string;
  /** The graph's tags. Default: `['serve']`. */
  readonly tags?: readonly string[];
}

export interface TensorDescription {
  readonly name: string;
  readonly dtype: string;
  /** Sizes of the dimensions. A variable size is -1. */
  readonly shape: readonly number[];
}

/** Makes predictions with one SavedModel function. */
export class SavedModel {
  readonly inputs: readonly TensorDescription[];
  readonly outputs: readonly TensorDescription[];
  /** Hash of the SavedModel's files, the signature and the tags. */
  readonly fingerprint: string;
  readonly #loaded: NodeSavedModel;

  constructor(loaded: NodeSavedModel, fingerprint: string) {
    this.inputs = descriptionsOf(loaded.signature.inputs);
    this.outputs = descriptionsOf(loaded.signature.outputs);
    this.fingerprint = fingerprint;
    this.#loaded = loaded;
  }

  /**
   * @param inputs the tensors in the order of `inputs`, or by name. If there is only one input, a single tensor.
   * @returns the tensors by name. If there is only one output, a single tensor.
   */
  predict(inputs: tfjs.Tensor | readonly tfjs.Tensor[] | tfjs.NamedTensorMap): tfjs.Tensor | tfjs.NamedTensorMap {
    const names = this.inputs.map(({ name }) => name);
    const list = isTensor(inputs) ? [inputs] : isList(inputs) ? inputs : null;
    const named =
      list === null ? (inputs as tfjs.NamedTensorMap) : Object.fromEntries(list.map((tensor, at) => [names[at] ?? `${at}`, tensor]));
    if (names.length !== Object.keys(named).length || names.some((name) => named[name] === undefined)) {
      throw new TonyError(
        'DATA_INVALID',
        `the SavedModel has the inputs ${names.join(', ')}, but the call passes ${Object.keys(named).join(', ')}`,
      );
    }
    const outputs = this.#loaded.predict(named);
    const [only] = this.outputs;
    return this.outputs.length === 1 && only !== undefined ? (outputs[only.name] as tfjs.Tensor) : outputs;
  }

  dispose(): void {
    this.#loaded.dispose();
  }
}

export async function loadSavedModel(world: ModelWorld, uri: string, options: LoadSavedModelOptions = {}): Promise<SavedModel> {
  const { signature = 'serving_default', tags = ['serve'] } = options;
  const { node } = world.tf as typeof tfjs & { readonly node?: NodeApi };
  if (node === undefined) {
    throw new TonyError('BACKEND_UNFIT', "a SavedModel runs only on the native backend, TensorFlow's C library", {
      hint: 'Use a runtime with the native backend (`tony-ts runtime build`), or load a graph model.',
    });
  }
  if ((await world.storage.stat(joinUri(uri, FILE))) === null) {
    throw new TonyError('MODEL_UNREADABLE', `${uri} contains no ${FILE}`);
  }
  // TensorFlow can load only local files, and does not need them after loading.
  const folder = await createScratchFolder();
  try {
    const files = await downloadFolder(world.storage, uri, folder, new AbortController().signal);
    const loaded = await node.loadSavedModel(folder, [...tags], signature).catch((error: unknown) => {
      throw new TonyError('MODEL_UNREADABLE', `the SavedModel ${uri} cannot be loaded: ${messageOf(error)}`, { cause: error });
    });
    const checksums = files.map(({ name, sha256 }) => `${name} ${sha256}\n`).sort();
    const fingerprint = createHash('sha256')
      .update(`${signature} ${tags}\n${checksums.join('')}`)
      .digest('hex');
    return new SavedModel(loaded, fingerprint.slice(0, 32));
  } finally {
    await removeScratchFolder(folder);
  }
}

/** Functions that tfjs-node adds to TensorFlow.js. */
interface NodeApi {
  loadSavedModel(folder: string, tags: string[], signature: string): Promise<NodeSavedModel>;
}

interface NodeSavedModel {
  readonly signature: Readonly<Record<'inputs' | 'outputs', NodeTensors>>;
  predict(inputs: tfjs.NamedTensorMap): tfjs.NamedTensorMap;
  dispose(): void;
}

type NodeTensors = Readonly<Record<string, { readonly dtype: string; readonly shape: readonly { getSize(): number }[] }>>;

function descriptionsOf(tensors: NodeTensors): TensorDescription[] {
  return Object.entries(tensors).map(([name, { dtype, shape }]) => ({ name, dtype, shape: shape.map((each) => each.getSize()) }));
}

function isTensor(inputs: tfjs.Tensor | readonly tfjs.Tensor[] | tfjs.NamedTensorMap): inputs is tfjs.Tensor {
  return typeof (inputs as tfjs.Tensor).dataSync === 'function';
}

function isList(inputs: readonly tfjs.Tensor[] | tfjs.NamedTensorMap): inputs is readonly tfjs.Tensor[] {
  return Array.isArray(inputs);
}
