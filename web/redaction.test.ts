import { expect, test } from 'vitest';
import { redacted } from './redaction.ts';

test('redaction hides values with secret-looking names at any depth', () => {
  const job = {
    jobId: 'application_1_0001',
    job: {
      env: { WANDB_API_KEY: 'abc', DB_PASSWORD: 'x1234', LEARNING_RATE: '0.1', TOKENIZERS_PARALLELISM: 'false', GITHUB_TOKEN: 'g' },
      roles: [{ name: 'worker', env: { AWS_SECRET_ACCESS_KEY: 's' }, instances: 2 }],
    },
    cluster: {
      kind: 'yarn',
      hadoop: { 'fs.s3a.access.key': 'k', 'fs.defaultFS': 'hdfs://nn:8020', 'hadoop.security.authentication': 'simple', 'a.password': '' },
    },
  };
  expect(redacted(job)).toEqual({
    jobId: 'application_1_0001',
    job: {
      env: { WANDB_API_KEY: '***', DB_PASSWORD: '***', LEARNING_RATE: '0.1', TOKENIZERS_PARALLELISM: 'false', GITHUB_TOKEN: '***' },
      roles: [{ name: 'worker', env: { AWS_SECRET_ACCESS_KEY: '***' }, instances: 2 }],
    },
    cluster: {
      kind: 'yarn',
      hadoop: {
        'fs.s3a.access.key': '***',
        'fs.defaultFS': 'hdfs://nn:8020',
        'hadoop.security.authentication': 'simple',
        'a.password': '',
      },
    },
  });
});

test('redaction hides values in well-known secret formats under any name', () => {
  const env = {
    A: '-----BEGIN RSA PRIVATE KEY-----\nx',
    B: 'AKIAABCDEFGHIJKLMNOP',
    C: 'postgres://bob:hunter2@db/x and http://plain/',
    D: 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx.abc',
  };
  expect(redacted({ env })).toEqual({ env: { A: '***', B: '***', C: 'postgres://bob:***@db/x and http://plain/', D: '***' } });
});

test.each([
  ['API_TOKEN=abc node train.js --epochs 3', 'API_TOKEN=*** node train.js --epochs 3'],
  ['node train.js --password "a b" --rate 0.1', 'node train.js --password *** --rate 0.1'],
  ["node train.js --api-key='x y'; echo done", 'node train.js --api-key=***; echo done'],
  ['node token.js data', 'node token.js data'],
  ['node train.js --token --verbose', 'node train.js --token --verbose'],
  ['train --password abc', 'train --password ***'],
  ['train --verbose --password abc', 'train --verbose --password ***'],
  ['train --token=-abc  --secret   x', 'train --token=***  --secret   ***'],
  ['curl https://bob:hunter2@host/x', 'curl https://bob:***@host/x'],
])('redaction hides the secrets in the command %s', (command, shown) => {
  expect(redacted({ command })).toEqual({ command: shown });
});

test.each(['DB_PASS', 'PASS', 'pass', 'SMTP-PASS', 'OPENAI_KEY', 'HF_KEY', 'encryption_keys', 'DB_PWD', 'HTTP_AUTH'])(
  'redaction hides the value of %s',
  (name) => {
    expect(redacted({ env: { [name]: 'hunter2!' } })).toEqual({ env: { [name]: '***' } });
    expect(redacted({ command: `${name}='hunter2!' run --${name} hunter2!` })).toEqual({ command: `${name}=*** run --${name} ***` });
  },
);

test.each(['compass', 'bypass', 'KEYBOARD', 'monkey', 'key', 'keys', 'PASSES', 'author'])('redaction keeps the value of %s', (name) => {
  expect(redacted({ env: { [name]: 'value' } })).toEqual({ env: { [name]: 'value' } });
});

test.each([
  ['curl -H "Authorization: Bearer abc.def" https://x', 'curl -H "Authorization: Bearer ***" https://x'],
  ["curl -H 'authorization:Basic YTpi'", "curl -H 'authorization:Basic ***'"],
  ['{"Authorization": "token abc"}', '{"Authorization": "token ***"}'],
  ['Authorization: abc', 'Authorization: ***'],
  ['run sk-proj-0123456789abcdef now', 'run *** now'],
  ['x=hf_abcdefghijklmnopqrstuvwx', 'x=***'],
  ['a task-force-of-some-length here', 'a task-force-of-some-length here'],
])('redaction hides the secrets in the text %s', (text, shown) => {
  expect(redacted({ env: { X: text }, command: text })).toEqual({ env: { X: shown }, command: shown });
});

test('redaction keeps all other values unchanged', () => {
  const job = { name: 'a', steps: [1, 2.5, null, true], roles: [{ name: 'worker', env: {} }], acls: { view: { users: ['bob'] } } };
  expect(redacted(job)).toEqual(job);
});

/** A quadratic pattern would far exceed the test timeout. */
test.each([
  ['a word', 'a'],
  ['options', '-'],
  ['spaces', ' '],
  ['schemes', 'a://'],
  ['users', '://a:'],
  ['quotes', 'a="'],
  ['other quotes', "-a '"],
  ['assignments', 'a='],
  ['keys', '-----BEGIN '],
  ['tokens', 'eyJ'],
  ['headers', 'authorization: '],
  ['open headers', `authorization:${' '.repeat(1000)}`],
  ['bearers', 'bearer '],
  ['words', ' sk-'],
  ['long words', 'sk-a'],
])('redaction of 400 kB of %s takes linear time', (_, part) => {
  const text = part.repeat(400_000 / part.length);
  const shown = redacted({ command: text, text, [text]: text }) as Record<string, unknown>;
  expect(Object.keys(shown)).toEqual(['command', 'text', text]);
});
