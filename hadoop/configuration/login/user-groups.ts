import { TonyError } from '../../../platform/errors.ts';
import { simpleCall } from '../../rpc/simple-call.ts';
import type { HadoopConfiguration } from '../configuration.ts';
import { homeFileSystem } from '../file-systems/hdfs-place.ts';
import { fileSystemUri, nameNodeEndpointsOf } from '../file-systems/name-nodes.ts';
import { rpcCallerOf } from './login-of.ts';

/**
 * Returns a user's groups according to the NameNode, like `hdfs groups USER`.
 * @param caller the user who sends the request
 * @throws TonyError HDFS_UNREACHABLE, KERBEROS_*, TOKEN_NOT_FOUND
 */
export async function groupsOfUser(configuration: HadoopConfiguration, caller: string, user: string): Promise<readonly string[]> {
  const fileSystem = homeFileSystem(configuration);
  const endpoints = fileSystem === null ? [] : nameNodeEndpointsOf(configuration, fileSystem);
  if (fileSystem === null || endpoints.length === 0) {
    throw new TonyError(
      'HDFS_UNREACHABLE',
      `The groups of ${user} are unknown: the configuration does not specify any NameNode RPC address.`,
      {
        hint: 'Set dfs.namenode.rpc-address and dfs.namenode.http-address of the NameNode in hdfs-site.xml.',
      },
    );
  }
  const { groups } = await simpleCall({
    endpoints,
    protocol: { name: 'org.apache.hadoop.tools.GetUserMappingsProtocol', version: 1 },
    caller: await rpcCallerOf(configuration, caller, { fileSystem: fileSystemUri(fileSystem) }),
    method: 'getGroupsForUser',
    request: 'GetGroupsForUserRequestProto',
    response: 'GetGroupsForUserResponseProto',
    value: { user },
    code: 'HDFS_UNREACHABLE',
    failure: `No NameNode reported the groups of ${user}.`,
  });
  return groups;
}
