import { expect, test } from 'vitest';
import { s3Error } from './s3-errors.ts';

const denied = (name: string) => Object.assign(new Error('Denied.'), { name, $metadata: { httpStatusCode: 403 } });

test.each([
  ['SignatureDoesNotMatch', 'AWS_SECRET_ACCESS_KEY'],
  ['InvalidAccessKeyId', 'AWS_ACCESS_KEY_ID'],
  ['ExpiredToken', 'AWS_SESSION_TOKEN'],
  ['RequestTimeTooSkewed', 'clock'],
  // A response to a HEAD request.
  ['Forbidden', 'AWS_SECRET_ACCESS_KEY'],
  ['AccessDenied', 'Request access'],
])('the hint for the answer %s names %s', (name, words) => {
  expect(s3Error(denied(name), 's3://b/k')).toMatchObject({ code: 'ACCESS_DENIED', hint: expect.stringContaining(words) });
});
