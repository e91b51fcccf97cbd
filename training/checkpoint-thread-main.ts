/** A thread of its own that writes checkpoints; see checkpoint-thread.ts. */
import { parentPort } from 'node:worker_threads';
import { messageOf, TonyError } from '../conf/errors.ts';
import { CheckpointStore } from './checkpoint-store.ts';
import type { FromCheckpointThread, ToCheckpointThread } from './checkpoint-thread-messages.ts';
import { openStorage } from './open-storage.ts';

const opening = openStorage();
// Told to whoever asks for the first checkpoint.
opening.catch(() => undefined);

async function save({ dir, origin, position, tensors }: ToCheckpointThread): Promise<FromCheckpointThread['outcome']> {
  try {
    const stored = tensors.map(({ buffer, ...tensor }) => ({ ...tensor, bytes: new Uint8Array(buffer) }));
    return { uri: await new CheckpointStore(await opening, dir).save({ position, tensors: stored }, origin) };
  } catch (error) {
    const { code, hint } = error instanceof TonyError ? error : { code: 'CHECKPOINT_FAILED' as const, hint: '' };
    return { code, message: messageOf(error), hint };
  }
}

parentPort?.on('message', async (message: ToCheckpointThread) => {
  const outcome = await save(message);
  const buffers = message.tensors.map(({ buffer }) => buffer);
  parentPort?.postMessage({ id: message.id, buffers, outcome } satisfies FromCheckpointThread, buffers);
});
