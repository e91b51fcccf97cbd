import type * as tfjs from '@tensorflow/tfjs';

/** A gradient in the format of an optimizer's `applyGradients`; `name` is the variable's name. */
export interface NamedGradient {
  readonly name: string;
  /** null if the loss does not depend on the variable. The step then leaves the variable unchanged. */
  readonly tensor: tfjs.Tensor | null;
}
