import type * as tfjs from '@tensorflow/tfjs';
import { formatMemory } from '../../conf/values/units.ts';
import type { CompiledModel } from '../model/compiled-model.ts';

/** The inputs to the memory estimate. All values are in bytes unless stated otherwise. */
export interface MemoryNeeds {
  /** The program's resident memory before training: the runtime, the model and the data held in memory. */
  readonly resident: number;
  readonly weights: number;
  readonly trainable: number;
  /** Number of optimizer slots per trained weight, or 0 if parameter servers hold the optimizer. */
  readonly slots: number;
  /** All layer outputs for one batch. */
  readonly activations: number;
  /** Number of processes that exchange gradients. Each process writes an equal share of a checkpoint. */
  readonly worldSize: number;
  readonly writesCheckpoints: boolean;
}

export interface MemoryEstimate {
  readonly resident: number;
  /** Gradients, optimizer slots, exchange buffers, and copies for checkpoints. */
  readonly training: number;
  readonly activations: number;
  /** The executor's memory, and memory allocated by the runtime in the first steps. */
  readonly overhead: number;
  readonly total: number;
}

const MEBIBYTE = 1 << 20;
/** An executor's resident memory. */
const EXECUTOR = 70 * MEBIBYTE;
/** Memory that Node.js and TensorFlow allocate in the first steps, regardless of the model. */
const FIRST_STEPS = 112 * MEBIBYTE;
/** During a step, memory holds the layer outputs, their gradients, and the working memory of kernels such as convolutions. */
const ACTIVATION_COPIES = 3;

/** Slots per trained weight, by optimizer class name. */
const SLOTS: Readonly<Record<string, number>> = { SGD: 0, Momentum: 1, Adagrad: 1, Adadelta: 2, Adam: 2, Adamax: 2, RMSProp: 2 };

/**
 * Estimates the peak memory of a container whose program trains on the `native` backend. docs/training.md describes the formula and how
 * accurate it is.
 */
export function estimateMemory(needs: MemoryNeeds): MemoryEstimate {
  const { resident, weights, trainable, slots, worldSize, writesCheckpoints } = needs;
  // Writing a checkpoint first copies the state, then encodes the copy. Both copies exist at the same time.
  const copies = writesCheckpoints ? (2 * (weights + slots * trainable)) / worldSize : 0;
  // The gradients, the slots, and the new weights before they replace the old weights.
  const steps = trainable * (2 + slots);
  const exchange = worldSize > 1 ? trainable : 0;
  const training = steps + exchange + copies;
  const activations = ACTIVATION_COPIES * needs.activations;
  const overhead = EXECUTOR + FIRST_STEPS;
  return { resident, training, activations, overhead, total: resident + training + activations + overhead };
}

/** Returns a warning if the estimate exceeds the container's memory, otherwise null. */
export function memoryWarning(estimate: MemoryEstimate, containerMb: number): string | null {
  const container = containerMb * MEBIBYTE;
  if (estimate.total <= container) {
    return null;
  }
  const { resident, training, activations, overhead, total } = estimate;
  return (
    `training may need ${inMemory(total)} of memory, but the container has ${formatMemory(containerMb)}. The estimate consists of ` +
    `${inMemory(resident)} already in use, ${inMemory(training)} for gradients, optimizer and checkpoints, ` +
    `${inMemory(activations)} for the outputs of layers, and ${inMemory(overhead)} for the runtime. ` +
    `If YARN ends the container, raise \`resources.memory\` to ${suggested(total)}, or reduce the batch size.`
  );
}

export function inMemory(bytes: number): string {
  return formatMemory(Math.ceil(bytes / MEBIBYTE));
}

export function suggested(bytes: number): string {
  return `${Math.ceil(bytes / (512 * MEBIBYTE)) * 512}m`;
}

export function slotsOf(optimizer: tfjs.Optimizer): number {
  return SLOTS[optimizer.getClassName()] ?? 0;
}

/** Returns the size in bytes of the weights, and of all layer outputs for one batch. */
export function sizesOf(
  { model, weights, trainable }: CompiledModel,
  batchSize: number,
): Pick<MemoryNeeds, 'weights' | 'trainable' | 'activations'> {
  const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0);
  const outputs = model.layers.flatMap(({ outputShape }) => (Array.isArray(outputShape[0]) ? outputShape : [outputShape]) as number[][]);
  // The first dimension is the batch. A dimension of unknown size, such as a text length, counts as 1.
  const elements = outputs.map((shape) => shape.slice(1).reduce((product, size) => product * (size ?? 1), 1));
  return {
    weights: 4 * sum(weights.map(({ variable }) => variable.size)),
    trainable: 4 * sum(trainable.map(({ size }) => size)),
    activations: 4 * batchSize * sum(elements),
  };
}
