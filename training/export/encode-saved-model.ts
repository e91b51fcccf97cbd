import type * as tfjs from '@tensorflow/tfjs';
import { bytes, text, WIRE, writeBigVarint } from '../../contract/encoding/protobuf.ts';
import { TonyError } from '../../platform/errors.ts';
import type { AttrValue, NodeDef, ShapeProto } from './graph-builder.ts';

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
export function encodeSavedModel(artifacts: tfjs.io.ModelArtifacts): Buffer {
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
