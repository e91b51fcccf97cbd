import type * as tfjs from '@tensorflow/tfjs';
import { createRandom } from '../../platform/random.ts';
import type { NativeBackend } from '../backend/native/native-backend.ts';
import type { CompiledModel } from '../model/compiled-model.ts';
import { isSame, NotCompilable, type Recording, record } from './recorder.ts';

/** The tensors of a batch. */
export interface StepInputs {
  readonly x: readonly tfjs.Tensor[];
  readonly y: readonly tfjs.Tensor[];
  /** Example weights of each output, or null. */
  readonly weights: readonly (tfjs.Tensor | null)[];
}

/** The outputs of a recorded step: the weighted loss, the metrics, the gradients, and the new values of moving averages. */
export interface RecordedStep {
  readonly recording: Recording;
  readonly metrics: number;
  /** Names of the variables that have a gradient. */
  readonly withGradient: readonly string[];
  /** Variables that the layers update, such as the moving averages of batch normalisation. */
  readonly moved: readonly tfjs.Variable[];
}

export interface StepToRecord {
  readonly native: NativeBackend;
  readonly model: CompiledModel;
  readonly trained: readonly tfjs.Variable[];
  readonly inputs: StepInputs;
  /** Factor of the loss. */
  readonly factor: tfjs.Scalar;
  /** The graph's inputs: the tensors of the batch, the model's weights, and `factor`. */
  readonly all: readonly tfjs.Tensor[];
  /** Creates a source of the numbers that the model draws from Math.random. */
  readonly random: () => () => number;
}

/**
 * Computes a step with separate operations, and records it. The model keeps its moving averages.
 * @throws NotCompilable
 */
export function recordStep(step: StepToRecord): RecordedStep {
  const first = recordOnce(step, step.random());
  const second = recordOnce(step, createRandom(0));
  step.native.tf.dispose([...second.recording.values]);
  if (!isSame(first.recording, second.recording)) {
    step.native.tf.dispose([...first.recording.values]);
    throw new NotCompilable('it does something else in each step, for example with random numbers');
  }
  return first;
}

function recordOnce({ native, model, trained, inputs, factor, all }: StepToRecord, random: () => number): RecordedStep {
  const { tf } = native;
  const found: Pick<RecordedStep, 'metrics' | 'withGradient' | 'moved'>[] = [];
  const before = model.moving.map((variable) => variable.clone());
  const compute = (): tfjs.Tensor[] => {
    let metrics: readonly tfjs.Tensor[] = [];
    const weighted = (): tfjs.Scalar => {
      const computed = model.lossOf(inputs.x, inputs.y, inputs.weights);
      metrics = computed.metrics;
      return tf.mul(computed.loss, factor) as tfjs.Scalar;
    };
    const { value, grads } = tf.variableGrads(weighted, [...trained]);
    const withGradient = trained.flatMap(({ name }) => (grads[name] ? [name] : []));
    const moved = model.moving.filter(({ dataId }, index) => dataId !== before[index]?.dataId);
    found.push({ metrics: metrics.length, withGradient, moved });
    const gradients = withGradient.map((name) => grads[name] as tfjs.Tensor);
    return [value, ...metrics, ...gradients, ...moved.map((variable) => variable.clone())];
  };
  try {
    return { recording: record(native, all, random, compute), ...(found[0] as (typeof found)[0]) };
  } catch (error) {
    disposeTape(tf);
    throw error;
  } finally {
    for (const [index, variable] of model.moving.entries()) {
      if (variable.dataId !== before[index]?.dataId) {
        variable.assign(before[index] as tfjs.Tensor);
      }
    }
  }
}

/** Disposes the tensors that TensorFlow.js has kept for gradients that were not computed, because the computation has failed. */
function disposeTape(tf: typeof tfjs): void {
  const { state } = tf.engine() as unknown as { readonly state: { activeTape: readonly { readonly saved?: tfjs.Tensor[] }[] | null } };
  tf.dispose((state.activeTape ?? []).flatMap(({ saved }) => saved ?? []));
  state.activeTape = null;
}
