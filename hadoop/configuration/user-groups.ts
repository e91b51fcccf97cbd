import { simpleCall } from '../rpc/simple-call.ts';
import type { HadoopConfiguration } from './configuration.ts';

/**
 * Returns the groups of a user as the cluster resolves them (`hdfs groups USER`), independent of this machine.
 *
 * @param caller the user who sends the request.
 * @throws TonyError HDFS_UNREACHABLE
 */
export async function groupsOfUser(configuration: HadoopConfiguration, caller: string, user: string): Promise<readonly string[]> {
  const { groups } = await simpleCall<{ readonly groups: string[] }>({
    endpoints: configuration.nameNodeEndpoints,
    protocol: { name: 'org.apache.hadoop.tools.GetUserMappingsProtocol', version: 1 },
    caller,
    method: 'getGroupsForUser',
    request: 'GetGroupsForUserRequestProto',
    response: 'GetGroupsForUserResponseProto',
    value: { user },
    code: 'HDFS_UNREACHABLE',
    failure: `No NameNode reported the groups of ${user}.`,
  });
  return groups;
}
