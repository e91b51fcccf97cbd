import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../../platform/errors.ts';
import type { Piece } from '../protocol/layout.ts';
import type { VariableRegistry } from './variable-registry.ts';

/** The weights in a server's answer: the concatenated pieces of the variables listed in `ids`. */
export interface WeightsPart {
  readonly ids: readonly number[];
  readonly body: Uint8Array;
}

/**
 * Assigns the weights in the servers' answers to the variables.
 * @param parts the answers in server order.
 * @throws TonyError RING_MISMATCH if a body's length does not match its pieces.
 */
export function takeWeights(tf: typeof tfjs, registry: VariableRegistry, parts: readonly WeightsPart[]): void {
  const values = wholeValues(registry, parts);
  tf.tidy(() => {
    for (const [id, numbers] of values) {
      const remote = registry.variable(id);
      // The program may have disposed this variable while the step was waiting for the servers.
      if (!remote.variable.isDisposed) {
        remote.variable.assign(tf.tensor(numbers, remote.variable.shape, 'float32'));
        remote.data = remote.variable.dataId;
      }
    }
  });
}

function wholeValues(registry: VariableRegistry, parts: readonly WeightsPart[]): Map<number, Float32Array> {
  const values = new Map<number, Float32Array>();
  const counts = new Map<number, number>();
  for (const [server, { ids }] of parts.entries()) {
    for (const id of ids) {
      counts.set(id, (counts.get(id) ?? 0) + (registry.variable(id).pieces[server] as Piece).count);
    }
  }
  for (const [server, { ids, body }] of parts.entries()) {
    let at = 0;
    for (const id of ids) {
      const { variable, pieces } = registry.variable(id);
      const { from, count } = pieces[server] as Piece;
      const numbers = new Float32Array(body.buffer, body.byteOffset + at * 4, count);
      at += count;
      if (count === variable.size) {
        values.set(id, numbers);
      } else {
        // The answers omit unchanged pieces.
        const isWhole = counts.get(id) === variable.size;
        const whole = values.get(id) ?? (isWhole ? new Float32Array(variable.size) : Float32Array.from(variable.dataSync()));
        whole.set(numbers, from);
        values.set(id, whole);
      }
    }
    if (at * 4 !== body.length) {
      throw new TonyError('RING_MISMATCH', `parameter server ${server} answered with ${body.length} bytes of weights instead of ${at * 4}`);
    }
  }
  return values;
}
