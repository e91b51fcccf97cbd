import type * as tfjs from '@tensorflow/tfjs';

/** A gradient in the format that `applyGradients` expects. `name` is the variable's name. */
export interface NamedGradient {
  readonly name: string;
  /** null if the loss does not depend on the variable. The optimizer then leaves the variable unchanged. */
  readonly tensor: tfjs.Tensor | null;
}
