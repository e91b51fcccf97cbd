import type { HadoopConfiguration } from './configuration.ts';
import { simpleCall } from './simple-call.ts';

interface Answer {
  readonly queueUserAcls: readonly { readonly queueName: string; readonly userAcls: readonly string[] }[];
}

/**
 * Names of the queues to which a user may submit, by YARN's own ACLs (`mapred queue -showacls`); where ACLs are off, all. Names are paths, or
 * the last parts of paths in older Hadoops. REST tells this to administrators alone.
 *
 * @throws TonyError RM_UNREACHABLE
 */
export async function queuesForSubmission(configuration: HadoopConfiguration, caller: string): Promise<readonly string[]> {
  const { queueUserAcls } = await simpleCall<Answer>({
    endpoints: configuration.resourceManagerEndpoints,
    protocol: { name: 'org.apache.hadoop.yarn.api.ApplicationClientProtocolPB', version: 1 },
    caller,
    method: 'getQueueUserAcls',
    request: 'GetQueueUserAclsInfoRequestProto',
    response: 'GetQueueUserAclsInfoResponseProto',
    value: {},
    code: 'RM_UNREACHABLE',
    failure: 'No ResourceManager said to which queues one may submit.',
  });
  return queueUserAcls.filter(({ userAcls }) => userAcls.includes('QACL_SUBMIT_APPLICATIONS')).map(({ queueName }) => queueName);
}
