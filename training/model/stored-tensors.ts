import type * as tfjs from '@tensorflow/tfjs';
import type { StoredTensor } from '../../contract/checkpoint/checkpoint-format.ts';
import { TonyError } from '../../platform/errors.ts';

export interface NamedVariable {
  readonly name: string;
  readonly variable: tfjs.Variable;
}

export interface NamedTensor {
  readonly name: string;
  readonly variable: tfjs.Tensor;
}

/** Copies tensors out of the backend. Further training does not change the copies. */
export async function capture(tf: typeof tfjs, variables: readonly NamedTensor[]): Promise<StoredTensor[]> {
  return await Promise.all(
    variables.map(async ({ name, variable }) => {
      const bytes = await copyOf(tf, variable);
      return { name, dtype: variable.dtype as StoredTensor['dtype'], shape: variable.shape, bytes };
    }),
  );
}

interface NativeData {
  /** The array passed to tf.tensor by the program, or null once an operation has used the tensor. */
  readonly values: unknown;
}

export async function copyOf(tf: typeof tfjs, tensor: tfjs.Tensor): Promise<Uint8Array> {
  // This check must come first, because reading the tensor may change its result.
  const isCopied = isCopiedByReading(tf, tensor);
  const values = (await tensor.data()) as Float32Array | Int32Array | Uint8Array;
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  return isCopied ? bytes : bytes.slice();
}

/**
 * Returns true if `tensor.data()` returns a copy. Some backends return their own memory, or the array from which the tensor was created.
 */
function isCopiedByReading(tf: typeof tfjs, tensor: tfjs.Tensor): boolean {
  switch (tf.getBackend()) {
    case 'wasm':
      return true;
    case 'tensorflow': {
      const { tensorMap } = tf.backend() as unknown as { readonly tensorMap?: { get(dataId: object): NativeData | undefined } };
      return tensorMap?.get(tensor.dataId)?.values === null;
    }
    default:
      return false;
  }
}

/** Describes a tensor's data type and shape, for example `float32 [2,3]`. */
export function typeOf({ dtype, shape }: { readonly dtype: string; readonly shape: readonly number[] }): string {
  return `${dtype} [${shape}]`;
}

export function misfit(where: string, what: string): TonyError {
  return new TonyError('CHECKPOINT_MISMATCH', `${where} does not fit this model: ${what}`);
}

export function tensorOf(tf: typeof tfjs, stored: StoredTensor): tfjs.Tensor {
  // Copies the bytes to aligned memory. Buffer.slice() would return a view.
  const { buffer } = new Uint8Array(stored.bytes);
  const values =
    stored.dtype === 'float32' ? new Float32Array(buffer) : stored.dtype === 'int32' ? new Int32Array(buffer) : new Uint8Array(buffer);
  return tf.tensor(values, [...stored.shape], stored.dtype);
}

/** Assigns stored tensors to variables with the same types. */
export function assignTensors(
  tf: typeof tfjs,
  pairs: readonly { readonly variable: tfjs.Variable; readonly tensor: StoredTensor }[],
): void {
  tf.tidy(() => {
    for (const { variable, tensor } of pairs) {
      variable.assign(tensorOf(tf, tensor));
    }
  });
}

/**
 * Restores variables by their names.
 * @throws TonyError CHECKPOINT_MISMATCH, without changing anything, if a variable has another type. A variable that is missing, because the
 *   checkpoint is older than the variable, keeps its value.
 */
export function restoreNamed(tf: typeof tfjs, variables: readonly NamedVariable[], tensors: readonly StoredTensor[], where: string): void {
  const stored = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  const pairs = variables.flatMap(({ name, variable }) => {
    const tensor = stored.get(name);
    if (tensor !== undefined && typeOf(tensor) !== typeOf(variable)) {
      throw misfit(where, `${name} is ${typeOf(tensor)} there, but ${typeOf(variable)} in this program`);
    }
    return tensor === undefined ? [] : [{ variable, tensor }];
  });
  assignTensors(tf, pairs);
}
