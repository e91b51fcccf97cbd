import { randomBytes } from 'node:crypto';
import { messageOf, TonyError } from '../conf/errors.ts';
import { AddressRound } from './address-round.ts';
import type { HadoopConfiguration } from './configuration.ts';
import { IpcConnection } from './ipc.ts';
import { decodeMessage } from './messages.ts';
import { endpointOfNode } from './records.ts';

const PROTOCOL = { name: 'org.apache.hadoop.tools.GetUserMappingsProtocol', version: 1 };
const PATIENCE_MS = 10_000;
const TIMEOUT_MS = 10_000;

/**
 * The groups of a user as the cluster itself resolves them (`hdfs groups USER`), whatever this machine believes.
 *
 * @param caller who asks.
 * @throws TonyError HDFS_UNREACHABLE
 */
export async function groupsOfUser(configuration: HadoopConfiguration, caller: string, user: string): Promise<readonly string[]> {
  const round = new AddressRound(
    configuration.nameNodeEndpoints.map(({ host, port }) => `${host}:${port}`),
    PATIENCE_MS,
  );
  const outcome = await round.run<readonly string[]>(async (address) => {
    const connection = new IpcConnection({
      endpoint: endpointOfNode(address),
      protocol: PROTOCOL,
      caller: { user: caller },
      clientId: randomBytes(16),
      connectTimeoutMs: TIMEOUT_MS,
    });
    try {
      const answer = await connection.call('getGroupsForUser', 'GetGroupsForUserRequestProto', { user }, TIMEOUT_MS);
      return { result: decodeMessage<{ groups: string[] }>('GetGroupsForUserResponseProto', answer).groups };
    } catch (error) {
      return { again: messageOf(error) };
    } finally {
      connection.close();
    }
  });
  if ('result' in outcome) return outcome.result;
  throw new TonyError('HDFS_UNREACHABLE', `No NameNode said which groups ${user} is in. Last try at ${outcome.reason}.`);
}
