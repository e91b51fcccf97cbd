import { TonyError } from '../../../platform/errors.ts';
import type { TrainingPosition } from '../../checkpoint/checkpoint-format.ts';
import { sealedAnswer } from '../protocol/messages.ts';
import type { ServerGroup } from './server-group.ts';

/** Calls `finish`, which stores the last checkpoint, and then seals the run. If `finish` fails, all workers fail. Called on the chief. */
export async function sealRun(servers: ServerGroup, position: TrainingPosition, finish: () => Promise<void>): Promise<void> {
  try {
    await finish();
  } catch (error) {
    await servers.ask(0, { ask: 'seal', failed: true, position });
    throw error;
  }
  await servers.ask(0, { ask: 'seal', failed: false, position });
}

/** Waits until the chief has sealed the run. @throws TonyError CHECKPOINT_FAILED. */
export async function awaitSeal(servers: ServerGroup): Promise<void> {
  const { failed } = sealedAnswer.parse((await servers.ask(0, { ask: 'sealed' })).head);
  if (failed) {
    throw new TonyError('CHECKPOINT_FAILED', 'rank 0 could not write the final checkpoint; its log shows the cause');
  }
}
