import type * as tfjs from '@tensorflow/tfjs';

/** A gradient in the format of `applyGradients`. */
export interface NamedGradient {
  readonly name: string;
  /** null if the loss does not depend on the variable; the step then does not change the variable. */
  readonly tensor: tfjs.Tensor | null;
}
