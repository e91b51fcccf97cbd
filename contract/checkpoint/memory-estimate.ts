import { formatMemory } from '../../conf/values/units.ts';
import type { Manifest } from './checkpoint-format.ts';

type StoredSize = Pick<Manifest['tensors'][number], 'name' | 'bytes'>;

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

const MEBIBYTE = 2 ** 20;
/** An executor's resident memory. */
const EXECUTOR = 70 * MEBIBYTE;
/** Memory that Node.js and TensorFlow allocate in the first steps, regardless of the model. */
const FIRST_STEPS = 112 * MEBIBYTE;
/** During a step, memory holds the layer outputs, their gradients, and the working memory of kernels such as convolutions. */
const ACTIVATION_COPIES = 3;

/** The resident memory of a program without a model, when training starts. */
const RUNTIME = 340 * MEBIBYTE;
/** Name of an optimizer slot in a checkpoint of `fit`. See training-state.ts. */
const SLOT = /^optimizer:(\w+):\d+:/;

/**
 * Estimates the peak memory of a container whose program trains on the `native` backend. docs/training/speed-and-memory.md describes the formula and how
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

/**
 * Estimates the memory of a container that resumes `fit` from a checkpoint. The estimate is too low by the layers' outputs and the data in
 * memory, which the checkpoint does not show. Returns null for a checkpoint of a custom loop.
 */
export function estimateResumedMemory({ tensors }: { readonly tensors: readonly StoredSize[] }, worldSize: number): MemoryEstimate | null {
  const bytesOf = (those: readonly StoredSize[]): number => those.reduce((sum, { bytes }) => sum + bytes, 0);
  const weights = bytesOf(tensors.filter(({ name }) => /^model:\d+:/.test(name)));
  if (weights === 0) {
    return null;
  }
  const ofSlots = tensors.filter(({ name }) => SLOT.test(name));
  const slots = new Set(ofSlots.map(({ name }) => SLOT.exec(name)?.[1])).size;
  const trainable = slots === 0 ? weights : bytesOf(ofSlots) / slots;
  return estimateMemory({ resident: RUNTIME + weights, weights, trainable, slots, activations: 0, worldSize, writesCheckpoints: true });
}

export function inMemory(bytes: number): string {
  return formatMemory(Math.ceil(bytes / MEBIBYTE));
}

export function suggested(bytes: number): string {
  return `${Math.ceil(bytes / (512 * MEBIBYTE)) * 512}m`;
}
