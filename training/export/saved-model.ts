import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type * as tfjs from '@tensorflow/tfjs';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { downloadFolder } from '../../storage/copy-files.ts';
import { joinUri } from '../../storage/uri.ts';
import { createScratchFolder, removeScratchFolder } from '../data/local-copy/scratch-folder.ts';
import { encodeSavedModel } from './encode-saved-model.ts';
import { graphOf } from './graph-model.ts';
import type { ModelWorld } from './layers-model.ts';

/** Name of a SavedModel's file. */
export const SAVED_MODEL_FILE = 'saved_model.pb';

export async function exportSavedModel(world: ModelWorld, model: tfjs.LayersModel, uri: string): Promise<void> {
  const file = encodeSavedModel(await graphOf(world.tf, model));
  if ((await world.storage.stat(joinUri(uri, 'variables'))) !== null) {
    throw new TonyError('ALREADY_EXISTS', `${uri} contains a SavedModel with variables`, { hint: 'Remove it, or choose another folder.' });
  }
  await world.storage.write(joinUri(uri, SAVED_MODEL_FILE), file);
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
   * @throws TonyError DATA_INVALID if an input is missing or cannot be converted, BACKEND_UNSUPPORTED if an output has the type uint8
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
    for (const [name, tensor] of Object.entries(named)) {
      checkIntegers(name, this.#loaded.signature.inputs[name]?.tfDtype, tensor);
    }
    for (const [name, { tfDtype }] of Object.entries(this.#loaded.signature.outputs)) {
      if (tfDtype === 'DT_UINT8') {
        throw new TonyError(
          'BACKEND_UNSUPPORTED',
          `output ${name} of the SavedModel has the type uint8, which the native backend cannot return`,
          {
            hint: 'Save a signature that converts this output to int32, or that omits it.',
          },
        );
      }
    }
    const outputs = this.#compute(named);
    const [only] = this.outputs;
    return this.outputs.length === 1 && only !== undefined ? (outputs[only.name] as tfjs.Tensor) : outputs;
  }

  #compute(inputs: tfjs.NamedTensorMap): tfjs.NamedTensorMap {
    try {
      return this.#loaded.predict(inputs);
    } catch (error) {
      throw new TonyError('DATA_INVALID', `the SavedModel cannot compute its outputs: ${messageOf(error)}`, {
        cause: error,
        hint: 'Check the types and shapes of the inputs, and that the SavedModel is complete.',
      });
    }
  }

  dispose(): void {
    this.#loaded.dispose();
  }
}

/** Ranges of values that the native backend converts to integer types of TensorFlow without an error and without changing them. */
const RANGES: Readonly<Record<string, readonly [type: string, least: number, most: number]>> = {
  DT_INT64: ['int64', 0, 2 ** 31 - 1],
  DT_UINT8: ['uint8', 0, 255],
};

/** @throws TonyError DATA_INVALID if the native backend would pass another value to TensorFlow */
export function checkIntegers(name: string, tfDtype: string | undefined, tensor: Pick<tfjs.Tensor, 'dataSync'>): void {
  const range = tfDtype === undefined || !Object.hasOwn(RANGES, tfDtype) ? undefined : RANGES[tfDtype];
  if (range === undefined) {
    return;
  }
  const [type, least, most] = range;
  const wrong = tensor.dataSync().find((value) => !Number.isInteger(value) || value < least || value > most);
  if (wrong !== undefined) {
    throw new TonyError('DATA_INVALID', `input ${name} of the SavedModel has the type ${type}, and cannot take the value ${wrong}`, {
      hint: `TensorFlow.js can pass only integers from ${least} to ${most} to such an input. Save a signature with an int32 input.`,
    });
  }
}

export async function loadSavedModel(world: ModelWorld, uri: string, options: LoadSavedModelOptions = {}): Promise<SavedModel> {
  const { signature = 'serving_default', tags = ['serve'] } = options;
  const { node } = world.tf as typeof tfjs & { readonly node?: NodeApi };
  if (node === undefined) {
    throw new TonyError('BACKEND_UNSUPPORTED', "a SavedModel runs only on the native backend, TensorFlow's C library", {
      hint: 'Use a runtime with the native backend (`tony-ts runtime build`), or load a graph model.',
    });
  }
  if ((await world.storage.stat(joinUri(uri, SAVED_MODEL_FILE))) === null) {
    throw new TonyError('MODEL_UNREADABLE', `${uri} contains no ${SAVED_MODEL_FILE}`);
  }
  // TensorFlow can load only local files, and does not need them after loading.
  const folder = await createScratchFolder();
  try {
    const files = await downloadFolder(world.storage, uri, folder, new AbortController().signal);
    await requireVariables(folder, uri);
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

/** TensorFlow loads a SavedModel whose variables are missing, and fails in the first prediction. */
async function requireVariables(folder: string, uri: string): Promise<void> {
  const hasVariables = (await readFile(path.join(folder, SAVED_MODEL_FILE))).includes('VarHandleOp');
  if (hasVariables && !existsSync(path.join(folder, 'variables', 'variables.index'))) {
    throw new TonyError('MODEL_UNREADABLE', `the SavedModel ${uri} has variables, but no file variables/variables.index`, {
      hint: 'Copy the whole folder of the SavedModel again.',
    });
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

type NodeTensors = Readonly<
  Record<string, { readonly dtype: string; readonly tfDtype?: string; readonly shape: readonly { getSize(): number }[] }>
>;

function descriptionsOf(tensors: NodeTensors): TensorDescription[] {
  return Object.entries(tensors).map(([name, { dtype, shape }]) => ({ name, dtype, shape: shape.map((each) => each.getSize()) }));
}

function isTensor(inputs: tfjs.Tensor | readonly tfjs.Tensor[] | tfjs.NamedTensorMap): inputs is tfjs.Tensor {
  return typeof (inputs as tfjs.Tensor).dataSync === 'function';
}

function isList(inputs: readonly tfjs.Tensor[] | tfjs.NamedTensorMap): inputs is readonly tfjs.Tensor[] {
  return Array.isArray(inputs);
}
