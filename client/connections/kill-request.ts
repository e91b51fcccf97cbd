import { Metadata } from '@grpc/grpc-js';
import { SESSION_TOKEN_METADATA } from '../../protos/session-protocol.ts';
import type { TonyMessages } from '../../protos/tony-messages.ts';
import type { JobRecords } from './job-records.ts';
import { connectToMaster, readSessionAddress } from './session-address.ts';

/** Timeout for the ApplicationMaster's answer (ms). */
const ANSWER_MS = 5_000;

/**
 * Asks the job's ApplicationMaster to end the job as killed, so that its programs have their grace periods. Only the ApplicationMaster can
 * do this, because YARN kills containers 250 ms after SIGTERM.
 * @param reason sentence for the job's result
 * @returns the time (ms) in which the job ends if the cluster responds, or null if the ApplicationMaster cannot be asked
 */
export async function requestKill(records: Pick<JobRecords, 'storage' | 'staged'>, reason: string): Promise<number | null> {
  const address = await readSessionAddress(records).catch(() => null);
  if (address === null || address === undefined) {
    return null;
  }
  const channel = connectToMaster(address);
  const metadata = new Metadata();
  metadata.set(SESSION_TOKEN_METADATA, address.token);
  try {
    const reply = await new Promise<TonyMessages['KillReply'] | null>((resolve) => {
      channel.Kill({ reason }, metadata, { deadline: Date.now() + ANSWER_MS }, (error, value) =>
        resolve(error === null ? (value ?? null) : null),
      );
    });
    return reply?.withinMs ?? null;
  } finally {
    channel.close();
  }
}
