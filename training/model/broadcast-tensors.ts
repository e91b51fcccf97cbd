import type * as tfjs from '@tensorflow/tfjs';
import type { StoredTensor } from '../../contract/checkpoint/checkpoint-format.ts';
import { TonyError } from '../../platform/errors.ts';
import type { Ring } from '../ring/ring.ts';
import { broadcastBytes } from '../ring/ring-bytes.ts';
import { assignTensors, capture, typeOf } from './stored-tensors.ts';

interface Parcel<Head> {
  readonly head: Head;
  readonly tensors: readonly StoredTensor[];
}

/**
 * Sends tensors and a JSON value from rank 0 to every rank. All ranks get the same types and bit-identical values.
 * @param own the tensors and the value to send on rank 0, or null on other ranks.
 * @throws TonyError PEER_LOST, RING_MISMATCH.
 */
export async function broadcastTensors<Head>(ring: Ring, own: Parcel<Head> | null): Promise<Parcel<Head>> {
  if (ring.worldSize === 1) {
    return own as Parcel<Head>;
  }
  const places = own?.tensors.map(({ name, dtype, shape, bytes }) => ({ name, dtype, shape, length: bytes.length }));
  const text = await broadcastBytes(ring, own === null ? null : Buffer.from(JSON.stringify({ head: own.head, places })));
  const received = JSON.parse(Buffer.from(text).toString('utf8')) as {
    readonly head: Head;
    readonly places: readonly (Omit<StoredTensor, 'bytes'> & { readonly length: number })[];
  };
  const all = await broadcastBytes(ring, own === null ? null : Buffer.concat(own.tensors.map(({ bytes }) => bytes)));
  let at = 0;
  const tensors = received.places.map(({ length, ...tensor }) => {
    at += length;
    return { ...tensor, bytes: all.subarray(at - length, at) };
  });
  return { head: received.head, tensors };
}

/**
 * Assigns rank 0's values to the variables of every rank. All ranks must pass variables with the same types and shapes, in the same order.
 * @throws TonyError RANKS_MISMATCH, PEER_LOST, RING_MISMATCH.
 */
export async function broadcastVariables(tf: typeof tfjs, ring: Ring, variables: readonly tfjs.Variable[]): Promise<void> {
  if (ring.worldSize === 1) {
    return;
  }
  const named = variables.map((variable) => ({ name: variable.name, variable }));
  const own = ring.rank === 0 ? { head: null, tensors: await capture(tf, named) } : null;
  const { tensors } = await broadcastTensors(ring, own);
  if (ring.rank === 0) {
    return;
  }
  const here = variables.map(typeOf);
  const there = tensors.map(typeOf);
  if (here.join() !== there.join()) {
    throw new TonyError('RANKS_MISMATCH', `rank 0 broadcasts ${there.join(', ')}; rank ${ring.rank} expects ${here.join(', ')}`, {
      hint: 'Pass the same variables in the same order on every rank.',
    });
  }
  assignTensors(
    tf,
    variables.map((variable, index) => ({ variable, tensor: tensors[index] as StoredTensor })),
  );
}
