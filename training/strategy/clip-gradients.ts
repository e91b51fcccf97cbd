import type * as tfjs from '@tensorflow/tfjs';
import type { NamedGradient } from '../optimizer/named-gradient.ts';
import type { StepOptions } from './step-options.ts';

type Clipping = Pick<StepOptions, 'clipNorm' | 'clipValue'>;

/**
 * Clips the gradients in place, as TensorFlow's clip_by_global_norm does: g * clipNorm / max(clipNorm, norm). The computation uses plain
 * JavaScript, so that all ranks get bit-identical results even on different hardware or backends.
 * @param numbers all gradients as one vector.
 */
export function clipNumbers(numbers: Float32Array, { clipNorm, clipValue }: Clipping): void {
  if (clipNorm !== undefined) {
    let squares = 0;
    for (let index = 0; index < numbers.length; index++) {
      const value = numbers[index] as number;
      squares += value * value;
    }
    const norm = Math.sqrt(squares);
    // If the norm is NaN, the negated comparison is true. All gradients then become NaN, which makes the problem visible.
    if (!(norm <= clipNorm)) {
      const factor = clipNorm / norm;
      for (let index = 0; index < numbers.length; index++) {
        numbers[index] = (numbers[index] as number) * factor;
      }
    }
  }
  if (clipValue !== undefined) {
    for (let index = 0; index < numbers.length; index++) {
      const value = numbers[index] as number;
      numbers[index] = value > clipValue ? clipValue : value < -clipValue ? -clipValue : value;
    }
  }
}

/** Clips gradients on the backend if there is only one rank. Disposes the given tensors if it returns new ones. */
export function clipGradients(
  tf: typeof tfjs,
  gradients: readonly NamedGradient[],
  { clipNorm, clipValue }: Clipping,
): readonly NamedGradient[] {
  if (clipNorm === undefined && clipValue === undefined) {
    return gradients;
  }
  const present = gradients.flatMap(({ tensor }) => tensor ?? []);
  const factor = clipNorm === undefined ? null : tf.tidy(() => factorOf(tf, present, clipNorm));
  const clipped = gradients.map(({ name, tensor }) => ({
    name,
    tensor: tensor && (factor === null ? tf.clipByValue(tensor, -(clipValue as number), clipValue as number) : tf.mul(tensor, factor)),
  }));
  tf.dispose([...present, ...(factor === null ? [] : [factor])]);
  return clipped;
}

function factorOf(tf: typeof tfjs, gradients: readonly tfjs.Tensor[], clipNorm: number): tfjs.Scalar {
  const squares = gradients.map((gradient) => tf.sum(tf.square(gradient)));
  const norm = tf.sqrt(tf.addN(squares));
  return tf.div(tf.scalar(clipNorm), tf.maximum(norm, clipNorm));
}
