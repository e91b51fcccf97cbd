import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type * as tfjs from '@tensorflow/tfjs';
import { bytes, text, WIRE, writeBigVarint } from '../../contract/encoding/protobuf.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { downloadFolder } from '../../storage/copy-files.ts';
import { joinUri } from '../../storage/uri.ts';
import { createScratchFolder, removeScratchFolder } from '../data/local-copy/scratch-folder.ts';
import type { AttrValue, NodeDef, ShapeProto } from './graph-builder.ts';
import { graphOf } from './graph-model.ts';
import type { ModelWorld } from './layers-model.ts';

/*
 * saved_model.pb (tensorflow/core/protobuf/saved_model.proto, meta_graph.proto):
 *
 *   SavedModel     1 saved_model_schema_version, 2 meta_graphs
 *   MetaGraphDef   1 meta_info_def (4 tags, 5 tensorflow_version), 2 graph_def, 5 signature_def: map
 *   GraphDef       1 node, 4 versions (1 producer, 2 min_consumer)
 *   NodeDef        1 name, 2 op, 3 input, 5 attr: map
 *   AttrValue      1 list (3 i, packed), 2 s, 3 i, 4 f, 5 b, 6 type, 7 shape, 8 tensor
 *   TensorProto    1 dtype, 2 tensor_shape, 4 tensor_content
 *   SignatureDef   1 inputs: map, 2 outputs: map, 3 method_name
 *   TensorInfo     1 name, 2 dtype, 3 tensor_shape
 *
 * A map is a list of messages with the key as field 1 and the value as field 2.
 */
const SCHEMA_VERSION = 1;
/** TensorFlow version whose operations the graph uses. TensorFlow only displays this version. */
const TENSORFLOW_VERSION = '2.9.1';
const SIGNATURE = 'serving_default';
const METHOD = 'tensorflow/serving/predict';
/** Maximum length of a protobuf message that TensorFlow can read. */
const MOST_BYTES = 2 ** 31 - 1;

const TYPES: Readonly<Record<string, number>> = { DT_FLOAT: 1, DT_INT32: 3, DT_BOOL: 10 };

interface TensorInfo {
  readonly name: string;
  readonly dtype: string;
  readonly tensorShape: ShapeProto;
}

type Signature = Readonly<Record<'inputs' | 'outputs', Readonly<Record<string, TensorInfo>>>>;

/**
 * Encodes a graph model as saved_model.pb. The weights are constants in the graph, so the SavedModel has no variables.
 * @throws TonyError MODEL_UNSUPPORTED if TensorFlow could not read the file because of its size.
 */
function encodeSavedModel(artifacts: tfjs.io.ModelArtifacts): Buffer {
  const { node, versions } = artifacts.modelTopology as {
    readonly node: readonly NodeDef[];
    readonly versions: { readonly producer: number };
  };
  const constants = constantsOf(artifacts);
  if ((artifacts.weightData as ArrayBuffer).byteLength > MOST_BYTES) {
    throw new TonyError('MODEL_UNSUPPORTED', 'the weights exceed 2 GiB, the maximum size of a SavedModel without variables');
  }
  const graph = [...node.map((each) => bytes(1, encodeNode(each, constants))), bytes(4, number(1, versions.producer))];
  const { inputs, outputs } = artifacts.signature as unknown as Signature;
  const signature = [...encodeMap(1, inputs, encodeTensorInfo), ...encodeMap(2, outputs, encodeTensorInfo), text(3, METHOD)];
  const metaGraph = [
    bytes(1, text(4, 'serve'), text(5, TENSORFLOW_VERSION)),
    bytes(2, ...graph),
    ...encodeMap(5, { [SIGNATURE]: signature }, (parts) => Buffer.concat(parts)),
  ];
  return Buffer.concat([number(1, SCHEMA_VERSION), bytes(2, ...metaGraph)]);
}

function constantsOf({ weightSpecs = [], weightData }: tfjs.io.ModelArtifacts): ReadonlyMap<string, Uint8Array> {
  let offset = 0;
  return new Map(
    weightSpecs.map(({ name, dtype, shape }) => {
      const length = shape.reduce((product, size) => product * size, dtype === 'bool' ? 1 : 4);
      const content = new Uint8Array(weightData as ArrayBuffer, offset, length);
      offset += length;
      return [name, content] as const;
    }),
  );
}

function encodeNode({ name, op, input, attr }: NodeDef, constants: ReadonlyMap<string, Uint8Array>): Buffer {
  const encodeAttr = (value: AttrValue): Buffer => encodeValue(value, constants.get(name));
  return Buffer.concat([text(1, name), text(2, op), ...input.map((each) => text(3, each)), ...encodeMap(5, attr, encodeAttr)]);
}

/** Encodes default values too, because an attribute whose field is missing would have no value. */
function encodeValue(value: AttrValue, content: Uint8Array = new Uint8Array()): Buffer {
  if ('type' in value) {
    return number(6, typeOf(value.type));
  }
  if ('i' in value) {
    return number(3, value.i);
  }
  if ('f' in value) {
    const encoded = Buffer.alloc(5, (4 << 3) | WIRE.fourBytes);
    encoded.writeFloatLE(value.f, 1);
    return encoded;
  }
  if ('b' in value) {
    return number(5, value.b ? 1 : 0);
  }
  if ('s' in value) {
    return bytes(2, Buffer.from(value.s, 'base64'));
  }
  if ('list' in value) {
    return bytes(1, bytes(3, ...value.list.i.map(signed)));
  }
  if ('shape' in value) {
    return bytes(7, encodeShape(value.shape));
  }
  const { dtype, tensorShape } = value.tensor;
  return bytes(8, number(1, typeOf(dtype)), bytes(2, encodeShape(tensorShape)), bytes(4, content));
}

function encodeShape({ dim }: ShapeProto): Buffer {
  return Buffer.concat(dim.map(({ size }) => bytes(2, number(1, size))));
}

function encodeTensorInfo({ name, dtype, tensorShape }: TensorInfo): Buffer {
  return Buffer.concat([text(1, name), number(2, typeOf(dtype)), bytes(3, encodeShape(tensorShape))]);
}

function encodeMap<T>(field: number, values: Readonly<Record<string, T>>, encode: (value: T) => Buffer): Buffer[] {
  return Object.entries(values).map(([key, value]) => bytes(field, text(1, key), bytes(2, encode(value))));
}

function typeOf(name: string): number {
  const type = TYPES[name];
  if (type === undefined) {
    throw new TonyError('INTERNAL', `the graph contains tensors of type ${name}`);
  }
  return type;
}

function number(field: number, value: number | string): Buffer {
  return Buffer.concat([Buffer.of((field << 3) | WIRE.varint), signed(value)]);
}

/** Encodes an int64. A negative number is encoded like the unsigned number with the same 64 bits. */
function signed(value: number | string): Buffer {
  const encoded = Buffer.alloc(10);
  return encoded.subarray(0, writeBigVarint(encoded, 0, BigInt.asUintN(64, BigInt(value))));
}

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
  if ((await world.storage.stat(joinUri(uri, FILE))) === null) {
    throw new TonyError('MODEL_UNREADABLE', `${uri} contains no ${FILE}`);
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
  const hasVariables = (await readFile(path.join(folder, FILE))).includes('VarHandleOp');
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
