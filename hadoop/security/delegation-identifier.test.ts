import { expect, test } from 'vitest';
import { decodeTokenUrl } from '../rpc/credentials.ts';
import { decodeDelegationIdentifier } from './delegation-identifier.ts';

/**
 * A recorded Hadoop 3.4.3 WebHDFS response to a GETDELEGATIONTOKEN request from alice. The renewer is rm/localhost@EXAMPLE.TEST, which maps
 * to yarn.
 */
const TOKEN = 'HQAFYWxpY2UEeWFybgCKAaILvDGzigGiL8i1swECFDmwk90206eoUriHOVVnKBydsrAQFUhERlNfREVMRUdBVElPTl9UT0tFTg8xMjcuMC4wLjE6MTEwMjA';

test('the identifier contains the owner, the renewer and the latest expiry of a token', () => {
  const { identifier, kind, service } = decodeTokenUrl(TOKEN);
  expect({ kind, service }).toEqual({ kind: 'HDFS_DELEGATION_TOKEN', service: '127.0.0.1:11020' });
  const { owner, renewer, issuedAt, endsAt } = decodeDelegationIdentifier(identifier);
  expect({ owner, renewer }).toEqual({ owner: 'alice', renewer: 'yarn' });
  expect(new Date(issuedAt).toISOString()).toMatch(/^2026-11-24T04:/);
  expect(endsAt - issuedAt).toBe(7 * 24 * 3_600_000);
});

test.each([[Buffer.alloc(0)], [Buffer.from([1, 5])], [Buffer.from([0, 5, 97])]])('damaged bytes are rejected: %o', (bytes) => {
  expect(() => decodeDelegationIdentifier(bytes)).toThrow(expect.objectContaining({ code: 'CREDENTIALS_INVALID' }));
});
