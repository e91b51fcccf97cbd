import type * as tfjs from '@tensorflow/tfjs';
import { type GraphBuilder, shapeProto, typeName } from './graph-builder.ts';
import type { Size } from './merged-trace.ts';

/** The graph's GraphDef version, which TensorFlow has supported since 2019. */
const PRODUCER = 175;

/** Returns a finished graph in the form of a GraphModel. */
export function artifactsOf(
  tf: typeof tfjs,
  { nodes, constants }: GraphBuilder,
  inputs: Record<string, unknown>,
  outputs: Record<string, unknown>,
): tfjs.io.ModelArtifacts {
  const values = constants.map(({ values }) => {
    const numbers = values instanceof tf.Variable ? (values.dataSync() as Float32Array | Int32Array | Uint8Array) : values;
    return new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength);
  });
  const data = Buffer.concat(values);
  return {
    format: 'graph-model',
    generatedBy: 'tony-ts',
    convertedBy: null,
    modelTopology: { node: nodes, library: {}, versions: { producer: PRODUCER } },
    signature: { inputs, outputs },
    weightSpecs: constants.map(({ name, dtype, shape }) => ({ name, dtype, shape: [...shape] })),
    weightData: data.buffer.slice(data.byteOffset, data.byteOffset + data.byteLength) as ArrayBuffer,
  };
}

/** Describes the tensors with which a caller of the graph passes inputs or gets outputs. Each node has the name of its tensor. */
export function signatureOf(tensors: readonly { name: string; dtype: string; shape: readonly Size[] }[]): Record<string, unknown> {
  const entries = tensors.map(({ name, dtype, shape }) => {
    return [name, { name: `${name}:0`, dtype: typeName(dtype), tensorShape: shapeProto(shape) }] as const;
  });
  return Object.fromEntries(entries);
}
