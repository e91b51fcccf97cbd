import { simpleCall } from '../../rpc/simple-call.ts';
import type { HadoopConfiguration } from '../configuration.ts';
import { rpcCallerOf } from './login-of.ts';

/** YARN accepts applications from the administrators of a queue, too. */
const MAY_SUBMIT = ['QACL_SUBMIT_APPLICATIONS', 'QACL_ADMINISTER_QUEUE'] as const;

/**
 * Returns the queues to which a user may submit according to YARN's ACLs (`mapred queue -showacls`), or all queues if ACLs are disabled.
 * Queue names are full paths, or only the last path component on older Hadoop versions. Uses RPC because YARN's REST API returns ACLs only
 * to administrators.
 * @throws TonyError RM_UNREACHABLE, KERBEROS_*, TOKEN_NOT_FOUND
 */
export async function queuesForSubmission(configuration: HadoopConfiguration, caller: string): Promise<readonly string[]> {
  const { queueUserAcls } = await simpleCall({
    endpoints: configuration.resourceManagerEndpoints,
    protocol: { name: 'org.apache.hadoop.yarn.api.ApplicationClientProtocolPB', version: 1 },
    caller: await rpcCallerOf(configuration, caller, 'resource-manager'),
    method: 'getQueueUserAcls',
    request: 'GetQueueUserAclsInfoRequestProto',
    response: 'GetQueueUserAclsInfoResponseProto',
    value: {},
    code: 'RM_UNREACHABLE',
    failure: `No ResourceManager reported the queues to which ${caller} may submit.`,
  });
  return queueUserAcls.filter(({ userAcls }) => MAY_SUBMIT.some((each) => userAcls.includes(each))).map(({ queueName = '' }) => queueName);
}

/** Returns true if `queues` contains the queue. Each name is a full path or its last component. */
export function includesQueue(queues: readonly string[], queue: string): boolean {
  return queues.some((each) => each === queue || each.endsWith(`.${queue}`) || queue.endsWith(`.${each}`));
}
