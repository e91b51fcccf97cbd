import { expect, test } from 'vitest';
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
  maxAttempts: 2,
  keepContainers: true,
  tokens: [],
  command: 'exec node',
  environment: {},
  resources: [],
  secrets: new Map([['tony.key', Buffer.from('kept to itself')]]),
  acls: null,
};

test('the redacted body of a submission differs from the sent one only in its secrets', () => {
  const real = JSON.stringify(submissionBody(submission));
  const secret = Buffer.from('kept to itself').toString('base64url');
  expect(real).toContain(secret);
  expect(JSON.stringify(redactedBody(submission))).toBe(real.replace(secret, '***'));
});
