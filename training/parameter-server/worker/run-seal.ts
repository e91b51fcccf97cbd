import type { TrainingPosition } from '../../../contract/checkpoint/checkpoint-format.ts';
import { TonyError } from '../../../platform/errors.ts';
import { sealedAnswer } from '../protocol/messages.ts';
import type { FixedWeights } from './fixed-weights.ts';
import type { ServerGroup } from './server-group.ts';

/** Calls `finish`, and then seals the run. If `finish` fails, the run fails on all workers. */
async function sealRun(servers: ServerGroup, position: TrainingPosition, finish: () => Promise<void>): Promise<void> {
  try {
    await finish();
  } catch (error) {
    await servers.ask(0, { ask: 'seal', failed: true, position });
    throw error;
  }
  await servers.ask(0, { ask: 'seal', failed: false, position });
}

/**
 * Ends a run after all workers have finished their steps. The chief stores its non-trainable weights and the last checkpoint, and then
 * seals the run. The other workers wait for the seal and then copy these weights.
 * @param store stores the last checkpoint. Null on workers other than the chief.
 */
export async function endRun(
  servers: ServerGroup,
  fixed: FixedWeights,
  position: TrainingPosition,
  store: (() => Promise<void>) | null,
  afterwards: Promise<void>,
): Promise<void> {
  if (store === null) {
    await afterwards;
    await awaitSeal(servers);
    await fixed.take(servers, 'last');
    return;
  }
  await sealRun(servers, position, async () => {
    await fixed.put(servers, 'last');
    await Promise.all([store(), afterwards]);
  });
}

/** Waits until the chief has sealed the run. @throws TonyError CHECKPOINT_FAILED. */
export async function awaitSeal(servers: ServerGroup): Promise<void> {
  const { failed } = sealedAnswer.parse((await servers.ask(0, { ask: 'sealed' })).head);
  if (failed) {
    throw new TonyError('CHECKPOINT_FAILED', 'rank 0 could not write the final checkpoint; its log shows the cause');
  }
}
