import type * as tfjs from '@tensorflow/tfjs';
import { messageOf } from '../../platform/errors.ts';
import { withRandom } from '../../platform/random.ts';
import type { NativeBackend } from '../backend/native/native-backend.ts';
import { nativeKernelsOf } from '../backend/native/native-kernels.ts';
import type { CompiledModel } from '../model/compiled-model.ts';
import { separateGradients } from '../model/separate-gradients.ts';
import type { StepGradients } from '../model/step-part.ts';
import { GraphSession } from './graph-session.ts';
import { type RecordedStep, recordStep, type StepInputs, type StepToRecord } from './record-step.ts';
import { NotCompilable, randomTensors } from './recorder.ts';
import { reasonNotRepeatable } from './repeatable-model.ts';

/**
 * Largest difference between a result of the graph and of separate operations, as a share of the result's largest number, and as a share of
 * the largest number of all results. Some gradients, such as those of a bias before batch normalisation, consist only of rounding errors.
 */
const TOLERANCE = { ofOne: 1e-3, ofAll: 1e-5 };
/** Graphs that a step keeps, one for each shape of the batches. */
const MOST_GRAPHS = 8;

interface Graph extends Omit<RecordedStep, 'recording'> {
  readonly session: GraphSession;
  readonly randoms: RecordedStep['recording']['randoms'];
}

/** A part of a step: a batch, and how it counts. */
export interface CompiledPart {
  /** Creates the tensors of the batch. */
  readonly batch: () => StepInputs;
  /** Factor of the loss and the gradients. */
  readonly weight: number;
  /** The numbers that the model draws from Math.random after `batch`. */
  readonly random: () => number;
}

/**
 * Computes a model's loss, metrics and gradients with one TensorFlow graph, instead of with hundreds of separate operations. TensorFlow
 * optimises the graph, and runs it with a single call.
 *
 * The first batch of each shape is computed in both ways. The graph is used only if it returns the same values. Its results are used from
 * this batch on, so a resumed run computes the same as an uninterrupted one.
 */
export class CompiledStep {
  readonly #tf: typeof tfjs;
  readonly #model: CompiledModel;
  readonly #native: NativeBackend | null;
  readonly #graphs = new Map<string, Graph>();
  #reason: string | null;

  /** @param isWanted false: the program wants separate operations. True: it states that its own layers and losses are repeatable. */
  constructor(tf: typeof tfjs, model: CompiledModel, isWanted: boolean | null) {
    this.#tf = tf;
    this.#model = model;
    this.#native = nativeKernelsOf(tf);
    this.#reason = this.#reasonFor(isWanted);
  }

  /** Why steps run separate operations, or null if they are compiled. */
  get reason(): string | null {
    return this.#reason;
  }

  #reasonFor(isWanted: boolean | null): string | null {
    if (isWanted === false) {
      return 'the option compile is false';
    }
    if (this.#native === null || this.#native.usesGpu) {
      return 'only the CPU backend of TensorFlow compiles steps';
    }
    return isWanted === true ? null : reasonNotRepeatable(this.#tf, this.#model.model);
  }

  /** Computes the loss, the metrics and the gradients of a part, with a graph where possible. */
  run(variables: readonly tfjs.Variable[], { batch, weight, random }: CompiledPart): StepGradients {
    const [tf, model] = [this.#tf, this.#model];
    const results: StepGradients[] = [];
    tf.tidy(() => {
      const inputs = batch();
      const replay = replayable(random);
      const separately = (): StepGradients =>
        separateGradients(tf, variables, () => withRandom(replay(), () => model.lossOf(inputs.x, inputs.y, inputs.weights)), weight);
      const result = this.#runGraph(variables, inputs, weight, replay) ?? separately();
      for (const tensor of [result.loss, ...result.metrics, ...Object.values(result.gradients)]) {
        // TensorFlow.js returns null for a frozen variable.
        if (tensor !== null) {
          tf.keep(tensor);
        }
      }
      results.push(result);
    });
    return results[0] as StepGradients;
  }

  /** Returns null if the part must be computed with separate operations. */
  #runGraph(variables: readonly tfjs.Variable[], inputs: StepInputs, weight: number, random: () => () => number): StepGradients | null {
    const native = this.#native;
    if (this.#reason !== null || native === null) {
      return null;
    }
    const model = this.#model;
    const factor = this.#tf.scalar(weight);
    const trained = variables.filter(({ trainable }) => trainable);
    const given = [...inputs.x, ...inputs.y, ...inputs.weights.filter((each) => each !== null)];
    const own = distinct(given);
    const all = [...own, ...new Set([...trained, ...model.weights.map(({ variable }) => variable)]), factor];
    if (distinct(all).length < all.length) {
      // Weights can share their data until the first update. A graph could not tell them apart.
      return null;
    }
    const key = JSON.stringify([
      given.map(({ shape, dtype, dataId }) => [shape, dtype, own.findIndex((each) => each.dataId === dataId)]),
      inputs.weights.map((each) => each !== null),
      trained.map(({ id }) => id),
    ]);
    const known = this.#graphs.get(key);
    return known === undefined
      ? this.#compile(key, { native, model, trained, inputs, factor, all, random })
      : this.#runKnown(key, known, all, random());
  }

  /** Returns null if TensorFlow rejects the batch. Separate operations have better errors. */
  #runKnown(key: string, graph: Graph, all: readonly tfjs.Tensor[], random: () => number): StepGradients | null {
    // The graph that was used last is the last one of the map.
    this.#graphs.delete(key);
    this.#graphs.set(key, graph);
    const given = [...all, ...randomTensors(this.#tf, graph.randoms, random)];
    try {
      return resultOf(graph, graph.session.run(given));
    } catch {
      return null;
    }
  }

  #compile(key: string, step: StepToRecord): StepGradients | null {
    let values: readonly tfjs.Tensor[] = [];
    try {
      const { recording, ...rest } = recordStep(step);
      values = recording.values;
      const given = [...step.all, ...randomTensors(this.#tf, recording.randoms, step.random())];
      const graph: Graph = { ...rest, session: new GraphSession(step.native, recording, given), randoms: recording.randoms };
      const outputs = graph.session.run(given);
      if (!areNear(outputs, values)) {
        graph.session.dispose();
        throw new NotCompilable('TensorFlow computes other values with a graph');
      }
      this.#keep(key, graph);
      return resultOf(graph, outputs);
    } catch (error) {
      this.#reason = error instanceof NotCompilable ? error.message : `TensorFlow rejects the graph: ${messageOf(error)}`;
      return null;
    } finally {
      // tf.tidy does not dispose metrics.
      this.#tf.dispose([...values]);
    }
  }

  #keep(key: string, graph: Graph): void {
    this.#graphs.set(key, graph);
    const [oldest] = this.#graphs;
    if (this.#graphs.size > MOST_GRAPHS && oldest !== undefined) {
      this.#graphs.delete(oldest[0]);
      oldest[1].session.dispose();
    }
  }

  dispose(): void {
    for (const { session } of this.#graphs.values()) {
      session.dispose();
    }
    this.#graphs.clear();
  }
}

/** Also updates the moving averages. */
function resultOf({ withGradient, metrics, moved }: Graph, [loss, ...rest]: readonly tfjs.Tensor[]): StepGradients {
  const movedAt = metrics + withGradient.length;
  moved.forEach((variable, index) => {
    variable.assign(rest[movedAt + index] as tfjs.Tensor);
  });
  const gradients = Object.fromEntries(withGradient.map((name, index) => [name, rest[metrics + index] as tfjs.Tensor]));
  return { loss: loss as tfjs.Scalar, metrics: rest.slice(0, metrics) as tfjs.Scalar[], gradients };
}

/** Returns a function that creates sources of the same numbers: the next ones of `random`. */
function replayable(random: () => number): () => () => number {
  const drawn: number[] = [];
  return () => {
    let at = 0;
    return () => {
      if (at === drawn.length) {
        drawn.push(random());
      }
      return drawn[at++] as number;
    };
  };
}

/** Omits tensors that share their data with an earlier one. */
function distinct(tensors: readonly tfjs.Tensor[]): tfjs.Tensor[] {
  return [...new Map(tensors.map((tensor): [object, tfjs.Tensor] => [tensor.dataId, tensor])).values()];
}

function areNear(results: readonly tfjs.Tensor[], expected: readonly tfjs.Tensor[]): boolean {
  const [ours, theirs] = [results, expected].map((tensors) => tensors.map((tensor) => tensor.dataSync())) as [Values[], Values[]];
  const most = Math.max(...theirs.map(largest));
  return theirs.every((values, index) => {
    const own = ours[index] as Values;
    const limit = TOLERANCE.ofOne * largest(values) + TOLERANCE.ofAll * most;
    return (
      values.length === own.length &&
      values.every((value, at) => Object.is(value, own[at]) || Math.abs(value - (own[at] as number)) <= limit)
    );
  });
}

type Values = Float32Array | Int32Array | Uint8Array;

function largest(values: Values): number {
  let most = 0;
  for (const value of values) {
    most = Math.max(most, Number.isFinite(value) ? Math.abs(value) : 0);
  }
  return most;
}
