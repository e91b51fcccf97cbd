import { expect, onTestFinished, test } from 'vitest';
import { Secret } from '../../platform/secret.ts';
import { FakeDaemon } from '../testing/fake-daemon.ts';
import { simpleCall } from './simple-call.ts';

test('a daemon with less protection than the configuration requires is not asked again', async () => {
  const token = { identifier: Buffer.from('id'), password: new Secret(Buffer.from('password')), kind: 'K', service: '' };
  const fake = await FakeDaemon.start({ answer: () => null, tokens: () => [token], qop: 'auth-int' });
  onTestFinished(() => fake.stop());
  const call = simpleCall({
    endpoints: [fake.endpoint],
    protocol: { name: 'org.apache.hadoop.tools.GetUserMappingsProtocol', version: 1 },
    caller: { token, minimumQop: 'auth-conf' },
    method: 'getGroupsForUser',
    request: 'GetGroupsForUserRequestProto',
    response: 'GetGroupsForUserResponseProto',
    value: { user: 'alice' },
    code: 'HDFS_UNREACHABLE',
    failure: 'No NameNode reported the groups of alice.',
  });
  await expect(call).rejects.toMatchObject({
    code: 'RPC_DENIED',
    message: expect.stringMatching(/^No NameNode reported the groups of alice\. Authentication at .* requires at least auth-conf\.$/),
    hint: expect.stringContaining('hadoop.rpc.protection'),
  });
  expect(fake.connections).toHaveLength(1);
});
