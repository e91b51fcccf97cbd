/** Entry point of the worker thread that writes checkpoints. See checkpoint-thread.ts. */
import { parentPort } from 'node:worker_threads';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { openStorage } from '../process/open-storage.ts';
import { CheckpointStore } from './checkpoint-store.ts';
import type { EndToMark, FromCheckpointThread, ToCheckpointThread } from './checkpoint-thread.ts';

const opening = openStorage();
// If storage cannot be opened, the first save reports the error.
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

async function markEnd({ endOf, dir, done }: EndToMark): Promise<void> {
  try {
    await new CheckpointStore(await opening, dir).marks.setEnd(endOf);
    Atomics.store(done, 0, 1);
  } catch {
    Atomics.store(done, 0, -1);
  }
  Atomics.notify(done, 0);
}

parentPort?.on('message', async (message: ToCheckpointThread | EndToMark) => {
  if ('endOf' in message) {
    await markEnd(message);
    return;
  }
  const outcome = await save(message);
  const buffers = message.tensors.map(({ buffer }) => buffer);
  parentPort?.postMessage({ id: message.id, buffers, outcome } satisfies FromCheckpointThread, buffers);
});
