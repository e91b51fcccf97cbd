import { expect, test } from 'vitest';
import { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { secretsVerdict } from './verdicts.ts';

const verdict = (properties: Readonly<Record<string, string>>) =>
  secretsVerdict(HadoopConfiguration.fromProperties({ 'yarn.resourcemanager.hostname': 'rm', ...properties }));
const HTTPS = { 'yarn.http.policy': 'HTTPS_ONLY' };
const PRIVACY = { 'hadoop.rpc.protection': 'privacy' };

test('the finding lists every connection on which secrets are readable', () => {
  expect(verdict({})).toMatchObject({
    state: 'warning',
    message:
      'the job secret crosses the network in clear text, over HTTP at submission and over Hadoop RPC when containers start: anyone who reads the secret can join the job',
    hint: expect.stringContaining('HTTPS_ONLY'),
  });
  expect(verdict(HTTPS).message).toContain('clear text, over Hadoop RPC when containers start:');
  expect(verdict(PRIVACY).message).toContain('clear text, over HTTP at submission:');
  // A daemon may choose `authentication`, which does not encrypt.
  expect(verdict({ ...HTTPS, 'hadoop.rpc.protection': 'privacy,authentication' }).state).toBe('warning');
});

test('secrets are safe if they are encrypted or not sent over a network', () => {
  expect(verdict({ ...HTTPS, ...PRIVACY }).state).toBe('ok');
  expect(verdict({ 'yarn.resourcemanager.hostname': 'localhost' }).state).toBe('ok');
  expect(verdict({ 'yarn.resourcemanager.hostname': '127.0.0.1' }).state).toBe('ok');
});
