import type * as tfjs from '@tensorflow/tfjs';

/** A gradient as `applyGradients` expects it. `name` is the name of its variable. */
export interface NamedGradient {
  readonly name: string;
  /** The gradient, or null if the loss does not depend on the variable. If it is null, the optimizer leaves the variable unchanged. */
  readonly tensor: tfjs.Tensor | null;
}
