import type { Manifest } from '../checkpoint/checkpoint-format.ts';
import { estimateMemory, type MemoryEstimate } from './memory-estimate.ts';

/** The resident memory of a program without a model, when training starts. */
const RUNTIME = 340 * 2 ** 20;
/** Name of an optimizer slot in a checkpoint of `fit`. See training-state.ts. */
const SLOT = /^optimizer:(\w+):\d+:/;

/**
 * Estimates the memory of a container that resumes `fit` from a checkpoint. The estimate is too low by the layers' outputs and the data in
 * memory, which the checkpoint does not show. Returns null for a checkpoint of a custom loop.
 */
export function estimateResumedMemory({ tensors }: Pick<Manifest, 'tensors'>, worldSize: number): MemoryEstimate | null {
  const bytesOf = (those: Manifest['tensors']): number => those.reduce((sum, { bytes }) => sum + bytes, 0);
  const weights = bytesOf(tensors.filter(({ name }) => /^model:\d+:/.test(name)));
  if (weights === 0) {
    return null;
  }
  const ofSlots = tensors.filter(({ name }) => SLOT.test(name));
  const slots = new Set(ofSlots.map(({ name }) => SLOT.exec(name)?.[1])).size;
  const trainable = slots === 0 ? weights : bytesOf(ofSlots) / slots;
  return estimateMemory({ resident: RUNTIME + weights, weights, trainable, slots, activations: 0, worldSize, writesCheckpoints: true });
}
