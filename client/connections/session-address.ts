import * as z from 'zod';
import { formatAddress } from '../../platform/address.ts';
import { parseJson } from '../../platform/json-value.ts';
import { PINNED_CHANNEL_OPTIONS, pinnedCredentials } from '../../protos/pinned-channel.ts';
import { clientConstructor, type ServiceClient } from '../../protos/services.ts';
import { MAXIMUM_SESSION_MESSAGE_BYTES, type SessionAddress } from '../../protos/session-protocol.ts';
import { readIfStored } from '../../storage/read-if-stored.ts';
import { joinUri } from '../../storage/uri.ts';
import type { JobRecords } from './job-records.ts';

const Client = clientConstructor('Sessions');

const publishedAddress = z.object({
  sessions: z.object({ host: z.string(), port: z.int(), token: z.string(), certificate: z.string() }).nullable(),
});

/**
 * Reads the address that the newest ApplicationMaster has published for the job's user. Returns null if the job does not permit sessions.
 * Returns undefined if no ApplicationMaster has published its address, or if the file is damaged or the address is incomplete.
 * @throws TonyError ACCESS_DENIED for the job of another user, or a connection error
 */
export async function readSessionAddress({
  storage,
  staged,
}: Pick<JobRecords, 'storage' | 'staged'>): Promise<SessionAddress | null | undefined> {
  const bytes = await readIfStored(storage, joinUri(staged(), 'am.json'));
  return bytes === null ? undefined : publishedAddress.safeParse(parseJson(bytes.toString())).data?.sessions;
}

/** Connects with TLS. Accepts only the job's own certificate. */
export function connectToMaster(address: SessionAddress): ServiceClient<'Sessions'> {
  return new Client(formatAddress(address), pinnedCredentials(address.certificate), {
    ...PINNED_CHANNEL_OPTIONS,
    'grpc.max_receive_message_length': MAXIMUM_SESSION_MESSAGE_BYTES,
  });
}
