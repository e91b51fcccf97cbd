import type * as tfjs from '@tensorflow/tfjs';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { weightsOf } from '../model/compiled-model.ts';
import { artifactsOf, signatureOf } from './graph-artifacts.ts';
import { attr, type ConstantNode, GraphBuilder, shapeProto } from './graph-builder.ts';
import { lowerKernel } from './graph-kernels.ts';
import type { ModelWorld } from './layers-model.ts';
import { type MergedTrace, mergeTraces } from './merged-trace.ts';
import { modelFilesHandler, writeModelFiles } from './model-files.ts';
import { type Trace, tracePrediction } from './trace.ts';

/** Batch sizes with which the model is traced. Other model dimensions rarely have these sizes. */
const BATCHES = [3, 5] as const;
/** Number of examples with which `proveEqual` compares the predictions of the graph and the model. */
const PROOF_BATCH = 7;
const TOLERANCE = 1e-4;

export async function exportGraphModel(world: ModelWorld, model: tfjs.LayersModel, uri: string): Promise<void> {
  await writeModelFiles(world.storage, uri, await graphOf(world.tf, model));
}

/**
 * Returns a graph for the model's predictions. Verifies that the graph makes the same predictions as the model.
 * @throws TonyError MODEL_UNSUPPORTED with the name of the layer that needs control flow or an unsupported kernel.
 */
export async function graphOf(tf: typeof tfjs, model: tfjs.LayersModel): Promise<tfjs.io.ModelArtifacts> {
  const artifacts = graphArtifacts(tf, model);
  await proveEqual(tf, model, artifacts);
  return artifacts;
}

export async function loadGraphModel({ tf, storage }: ModelWorld, uri: string): Promise<tfjs.GraphModel> {
  return await tf.loadGraphModel(modelFilesHandler(tf, storage, uri));
}

function graphArtifacts(tf: typeof tfjs, model: tfjs.LayersModel): tfjs.io.ModelArtifacts {
  const weights = new Map(weightsOf(model).map((weight) => [weight.variable.id, weight]));
  const traceWith = (batch: number) => traceTidily(tf, model, batch, new Set(weights.keys()));
  const trace = mergeTraces(traceWith(BATCHES[0]), traceWith(BATCHES[1]), BATCHES);
  const isCounted = trace.inputs[0]?.shape[0] !== undefined && typeof trace.inputs[0].shape[0] !== 'number';
  const names = { inputs: uniqueNames(model.inputNames), outputs: uniqueNames(model.outputNames) };
  const graph = new GraphBuilder(isCounted ? (names.inputs[0] as string) : null);
  const refs = new Map<number, string>();
  trace.inputs.forEach(({ id, dtype, shape }, index) => {
    const placeholder = { dtype: attr.type(dtype), shape: { shape: shapeProto(shape) } };
    refs.set(id, graph.node(names.inputs[index] as string, 'Placeholder', [], placeholder));
  });
  const settle = (id: number) => {
    const [weight, constant] = [weights.get(id), trace.constants.get(id)];
    if (refs.has(id)) {
      return;
    }
    if (weight !== undefined) {
      const { variable, name } = weight;
      refs.set(id, graph.constant(name, { dtype: variable.dtype as ConstantNode['dtype'], shape: variable.shape, values: variable }));
    } else if (constant !== undefined) {
      refs.set(id, graph.own('constant', constant));
    }
  };
  for (const call of neededCalls(trace)) {
    for (const { id } of call.inputs.values()) {
      settle(id);
    }
    const outputs = lowerKernel(call, graph, refs);
    call.outputs.forEach(({ id }, index) => {
      refs.set(id, outputs[index] as string);
    });
  }
  const outputs = trace.outputs.map(({ id, dtype, shape }, index) => {
    settle(id);
    const name = graph.node(names.outputs[index] as string, 'Identity', [refs.get(id) as string], { T: attr.type(dtype) });
    return { name, dtype, shape };
  });
  const inputs = trace.inputs.map(({ id, dtype, shape }) => ({ name: refs.get(id) as string, dtype, shape }));
  return artifactsOf(tf, graph, signatureOf(inputs), signatureOf(outputs));
}

function traceTidily(tf: typeof tfjs, model: tfjs.LayersModel, batch: number, weights: ReadonlySet<number>): Trace {
  const traces: Trace[] = [];
  tf.tidy(() => {
    traces.push(tracePrediction(tf, model, sampleInputs(tf, model, batch), weights));
  });
  return traces[0] as Trace;
}

/** Returns the calls needed for the outputs. A model may also compute tensors that it does not use, for example masks. */
function neededCalls({ calls, outputs }: MergedTrace): MergedTrace['calls'] {
  const needed = new Set(outputs.map(({ id }) => id));
  const kept = [...calls].reverse().filter((call) => {
    const isNeeded = call.outputs.some(({ id }) => needed.has(id));
    for (const { id } of isNeeded ? call.inputs.values() : []) {
      needed.add(id);
    }
    return isNeeded;
  });
  return kept.reverse();
}

function uniqueNames(names: readonly string[]): string[] {
  return names.map((name, index) => (names.indexOf(name) === index ? name : `${name}_${index}`));
}

/**
 * Returns valid inputs for the model. They are zeros or, with `random`, random numbers. For a model with embeddings, the random numbers are
 * valid indices.
 * @param batch the number of examples. Ignored if the model has a fixed number of examples.
 */
function sampleInputs(tf: typeof tfjs, model: tfjs.LayersModel, batch: number, random = false): tfjs.Tensor[] {
  return model.inputs.map(({ shape, dtype, name }) => {
    const [examples, ...rest] = shape;
    const free = rest.findIndex((size) => size === null || size === undefined);
    if (free >= 0) {
      throw new TonyError('MODEL_UNSUPPORTED', `input ${name} has the shape [${shape}], but only the first dimension may be variable`, {
        hint: 'Create the model again with a fixed inputShape, and copy the weights to it.',
      });
    }
    const fixed = [examples ?? batch, ...rest] as number[];
    if (!random) {
      return tf.zeros(fixed, dtype);
    }
    const sizes = embeddingSizes(model);
    return dtype === 'float32' && sizes.length === 0
      ? tf.randomNormal(fixed, 0, 1, 'float32', 17)
      : tf.randomUniform(fixed, 0, sizes.length === 0 ? 2 : Math.min(...sizes), 'int32', 17).cast(dtype);
  });
}

function embeddingSizes(model: tfjs.LayersModel): number[] {
  return model.layers.flatMap((layer) => {
    const { layers, inputDim } = layer as unknown as { readonly layers?: unknown; readonly inputDim?: number };
    if (layers !== undefined) {
      return embeddingSizes(layer as unknown as tfjs.LayersModel);
    }
    return layer.getClassName() === 'Embedding' && inputDim !== undefined ? [inputDim] : [];
  });
}

async function proveEqual(tf: typeof tfjs, model: tfjs.LayersModel, artifacts: tfjs.io.ModelArtifacts): Promise<void> {
  const graph = await tf.loadGraphModel({ load: async () => artifacts });
  try {
    tf.tidy(() => {
      const inputs = sampleInputs(tf, model, PROOF_BATCH, true);
      const expected = [model.apply(inputs, { training: false })].flat() as tfjs.Tensor[];
      const computed = [graph.predict(inputs) as tfjs.Tensor | tfjs.Tensor[]].flat();
      expected.forEach((tensor, index) => {
        const [one, other] = [tensor.dataSync(), computed[index]?.dataSync()];
        const isEqual = other !== undefined && one.length === other.length && one.every((value, at) => isNear(value, other[at] as number));
        if (!isEqual) {
          throw new TonyError(
            'MODEL_UNSUPPORTED',
            `the graph of ${model.name} and the model itself return different values for output ${model.outputNames[index]}`,
          );
        }
      });
    });
  } catch (error) {
    if (error instanceof TonyError) {
      throw error;
    }
    throw new TonyError('MODEL_UNSUPPORTED', `the graph of ${model.name} fails to run: ${messageOf(error)}`, { cause: error });
  } finally {
    graph.dispose();
  }
}

function isNear(one: number, other: number): boolean {
  return Object.is(one, other) || Math.abs(one - other) <= TOLERANCE * (1 + Math.abs(one));
}
