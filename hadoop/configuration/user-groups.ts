import { simpleCall } from '../rpc/simple-call.ts';
import type { HadoopConfiguration } from './configuration.ts';
import { homeFileSystem } from './hdfs-place.ts';
import { rpcCallerOf } from './login-of.ts';
import { fileSystemUri, nameNodeEndpointsOf } from './name-nodes.ts';

/**
 * Returns a user's groups as resolved by the NameNode (`hdfs groups USER`).
 * @param caller the user who sends the request
 * @throws TonyError HDFS_UNREACHABLE, KERBEROS_*, TOKEN_MISSING
 */
export async function groupsOfUser(configuration: HadoopConfiguration, caller: string, user: string): Promise<readonly string[]> {
  const fileSystem = homeFileSystem(configuration);
  const { groups } = await simpleCall<{ readonly groups: string[] }>({
    endpoints: fileSystem === null ? [] : nameNodeEndpointsOf(configuration, fileSystem),
    protocol: { name: 'org.apache.hadoop.tools.GetUserMappingsProtocol', version: 1 },
    caller: await rpcCallerOf(configuration, caller, { fileSystem: fileSystem === null ? '' : fileSystemUri(fileSystem) }),
    method: 'getGroupsForUser',
    request: 'GetGroupsForUserRequestProto',
    response: 'GetGroupsForUserResponseProto',
    value: { user },
    code: 'HDFS_UNREACHABLE',
    failure: `No NameNode reported the groups of ${user}.`,
  });
  return groups;
}
