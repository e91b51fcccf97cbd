import type * as tfjs from '@tensorflow/tfjs';

/** Members of the tf.train optimizers that TensorFlow.js's type declarations omit. */
interface Members {
  iterations_: number;
  /** The learning rate, or undefined for custom optimizers that have none. */
  learningRate: number;
  setLearningRate?(rate: number): void;
}

function membersOf(optimizer: tfjs.Optimizer): Members {
  return optimizer as unknown as Members;
}

export function setIterations(optimizer: tfjs.Optimizer, iterations: number): void {
  membersOf(optimizer).iterations_ = iterations;
}

/** Returns the current learning rate, which the program may change during training. */
export function learningRateOf(optimizer: tfjs.Optimizer): number {
  return membersOf(optimizer).learningRate;
}

export function setLearningRate(optimizer: tfjs.Optimizer, rate: number): void {
  const members = membersOf(optimizer);
  if (members.setLearningRate === undefined) {
    members.learningRate = rate;
  } else {
    // SGD and its subclasses store the learning rate in a tensor, which this method replaces.
    members.setLearningRate(rate);
  }
}
