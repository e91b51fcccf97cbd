import { expect, test } from 'vitest';
import { Secret } from '../../platform/secret.ts';
import { encodeTokenUrl } from '../rpc/credentials.ts';
import { type ApplicationSubmission, redactedBody, submissionBody } from './application-submission.ts';

const submission: ApplicationSubmission = {
  applicationId: 'application_1_0001',
  name: 'mnist',
  type: 'TONY',
  queue: 'default',
  tags: ['tony-ts'],
  memoryMb: 1024,
  vcores: 1,
  nodeLabel: null,
  priority: 0,
  maxAttempts: 2,
  failureWindowMs: null,
  keepContainers: true,
  tokens: [],
  keepTokens: false,
  command: 'exec node',
  environment: {},
  resources: [],
  secrets: new Map([['tony.key', Buffer.from('kept to itself')]]),
  acls: null,
};

test('the credentials contain tokens keyed by their services, and tokens are redacted like secrets', () => {
  const token = { identifier: Buffer.from('id'), password: new Secret(Buffer.from('secret')), kind: 'K', service: 'ip:1' };
  const credentials = (body: Record<string, unknown>): unknown =>
    (body['am-container-spec'] as { credentials: { tokens: unknown } }).credentials.tokens;
  expect(credentials(submissionBody({ ...submission, tokens: [token] }))).toEqual({
    entry: [{ key: 'ip:1', value: encodeTokenUrl(token) }],
  });
  expect(credentials(redactedBody({ ...submission, tokens: [token] }))).toEqual({ entry: [{ key: 'ip:1', value: '***' }] });
});

test('the ResourceManager cancels the tokens of an application unless the user keeps them', () => {
  expect(submissionBody(submission)).toMatchObject({ 'cancel-tokens-when-complete': true });
  expect(submissionBody({ ...submission, keepTokens: true })).toMatchObject({ 'cancel-tokens-when-complete': false });
});

test('the redacted body of a submission differs from the sent one only in its secrets', () => {
  const real = JSON.stringify(submissionBody(submission));
  const secret = Buffer.from('kept to itself').toString('base64url');
  expect(real).toContain(secret);
  expect(JSON.stringify(redactedBody(submission))).toBe(real.replace(secret, '***'));
});

test('a submission sets its priority, and limits the time in which failed attempts count only if the job does', () => {
  const window = 'attempt-failures-validity-interval';
  expect(submissionBody({ ...submission, priority: 3, failureWindowMs: 60_000 })).toMatchObject({ priority: 3, [window]: 60_000 });
  expect(submissionBody(submission)).not.toHaveProperty(window);
});
