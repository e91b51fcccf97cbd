import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Credentials, decodeCredentials, encodeCredentials, type Token } from '../../hadoop/rpc/credentials.ts';
import { Secret } from '../../platform/secret.ts';
import { DelegationTokens } from './settings.ts';

let folder: string;
let ownFile: string;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-tokens-'));
  ownFile = path.join(folder, 'container_tokens');
});
afterEach(() => rm(folder, { recursive: true, force: true }));

function credentials(...passwords: string[]): Credentials {
  const tokens = passwords.map((password): Token => {
    return {
      identifier: new Uint8Array([1]),
      password: new Secret(Buffer.from(password)),
      kind: 'HDFS_DELEGATION_TOKEN',
      service: 'nn:8020',
    };
  });
  return {
    tokens: tokens.map((token) => ({ alias: token.service, token })),
    secrets: new Map([['tony.ring', new Secret(Buffer.from('r'))]]),
  };
}

async function read(file: string): Promise<{ passwords: string[]; secrets: string[]; mode: number }> {
  const { tokens, secrets } = decodeCredentials(await readFile(file));
  return {
    passwords: tokens.map(({ token }) => Buffer.from(token.password.reveal()).toString()),
    secrets: [...secrets.keys()],
    mode: (await stat(file)).mode & 0o777,
  };
}

test('the program gets the tokens without the secrets of its executor', async () => {
  const tokens = new DelegationTokens(ownFile, folder, credentials('old'));
  const file = await tokens.writeForProgram();
  expect(await read(file as string)).toEqual({ passwords: ['old'], secrets: [], mode: 0o600 });
});

test('new tokens replace the tokens of the executor and of its running program, and later programs get the new tokens', async () => {
  await writeFile(ownFile, encodeCredentials(credentials('old')), { mode: 0o644 });
  const tokens = new DelegationTokens(ownFile, folder, credentials('old'));
  const file = (await tokens.writeForProgram()) as string;
  await tokens.replace(encodeCredentials({ ...credentials('new', 'kms'), secrets: new Map() }));
  expect(await read(ownFile)).toEqual({ passwords: ['new', 'kms'], secrets: ['tony.ring'], mode: 0o600 });
  expect(await read(file)).toEqual({ passwords: ['new', 'kms'], secrets: [], mode: 0o600 });
  await rm(file);
  expect(await read((await tokens.writeForProgram()) as string)).toMatchObject({ passwords: ['new', 'kms'] });
});

test('damaged tokens change nothing', async () => {
  const tokens = new DelegationTokens(ownFile, folder, credentials('old'));
  const file = (await tokens.writeForProgram()) as string;
  await expect(tokens.replace(Buffer.from('HDTS'))).rejects.toMatchObject({ code: 'CREDENTIALS_INVALID' });
  expect(await read(file)).toMatchObject({ passwords: ['old'] });
});

test('without tokens there is no file', async () => {
  expect(await new DelegationTokens(ownFile, folder, credentials()).writeForProgram()).toBeNull();
});
