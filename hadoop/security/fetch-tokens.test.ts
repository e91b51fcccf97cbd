import { createServer, type IncomingMessage } from 'node:http';
import { expect, onTestFinished, test } from 'vitest';
import { encodeTokenUrl } from '../rpc/credentials.ts';
import { listening } from '../testing/http-server.ts';
import { DEFAULT_TRUST } from '../tls/server-trust.ts';
import { decodeDelegationIdentifier } from './delegation-identifier.ts';
import { type ClusterServices, keyServerTokens, nameNodeTokens, resourceManagerTokens } from './fetch-tokens.ts';
import { parseKeyServers } from './key-servers.ts';
import { KnownServers } from './known-servers.ts';
import { SimpleLogin } from './login.ts';

/** A Hadoop 3.4.3 KMS's response to a GETDELEGATIONTOKEN request from alice with the renewer yarn. It contains a kind, but no service. */
const KEY_SERVER_TOKEN = 'HQAFYWxpY2UEeWFybgCKAaIR1kY3igGiNeLKNwECFCKWDE7m2LWJwT4JrBe5YWhpajrpBmttcy1kdAA';
/** A Hadoop 3.4.3 WebHDFS response. */
const NAME_NODE_TOKEN =
  'HQAFYWxpY2UEeWFybgCKAaILvDGzigGiL8i1swECFDmwk90206eoUriHOVVnKBydsrAQFUhERlNfREVMRUdBVElPTl9UT0tFTg8xMjcuMC4wLjE6MTEwMjA';

interface Seen {
  readonly line: string;
  readonly query: Record<string, string>;
  readonly token: string | undefined;
}

/** Starts a daemon that sends the responses one after the other and records the requests. */
async function daemon(...answers: (object | string)[]): Promise<{ url: string; seen: Seen[] }> {
  const seen: Seen[] = [];
  const server = createServer((request: IncomingMessage, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://daemon');
    const token = request.headers['hadoop-yarn-rm-delegation-token'];
    seen.push({ line: `${request.method} ${pathname}`, query: Object.fromEntries(searchParams), token: token?.toString() });
    const answer = answers.shift() ?? {};
    response.statusCode = typeof answer === 'string' ? 403 : 200;
    response.end(typeof answer === 'string' ? answer : JSON.stringify(answer));
    request.resume();
  });
  const url = await listening(server);
  onTestFinished(() => void server.close());
  return { url, seen };
}

function services(url: string): ClusterServices {
  return {
    trust: DEFAULT_TRUST,
    servers: new KnownServers([url]),
    resourceManagers: [url],
    resourceManagerEndpoints: [{ host: '127.0.0.1', port: 8032 }],
    renewer: 'alice@EXAMPLE.TEST',
    tokenIssuer: (fileSystem) => {
      const [scheme = '', authority = ''] = fileSystem.split('://');
      return { addresses: [url], scheme, endpoint: authority === 'box' ? null : { host: '127.0.0.1', port: 8020 }, authority };
    },
    keyServers: null,
  };
}

const login = new SimpleLogin('alice');

test("a key server's token gets the URI of the key servers as its service", async () => {
  const { url, seen } = await daemon({ Token: { urlString: KEY_SERVER_TOKEN } }, { long: 1_795_681_997_665 });
  const servers = parseKeyServers(`kms://${url.replace('http://', 'http@')}/kms`);
  if (servers === null) {
    throw new Error(url);
  }
  const source = keyServerTokens(login, services(url), servers);
  const token = await source.fetch();
  expect(token).toMatchObject({ kind: 'kms-dt', service: servers.service });
  expect(decodeDelegationIdentifier(token.identifier)).toMatchObject({ owner: 'alice', renewer: 'yarn' });
  expect(await source.renew(token)).toBe(1_795_681_997_665);
  expect(seen).toMatchObject([
    { line: 'GET /kms/v1/', query: { op: 'GETDELEGATIONTOKEN', renewer: 'alice@EXAMPLE.TEST' } },
    { line: 'PUT /kms/v1/', query: { op: 'RENEWDELEGATIONTOKEN', token: encodeTokenUrl(token) } },
  ]);
});

test.each([
  ['hdfs://nn:8020', '127.0.0.1:8020'],
  ['hdfs://box', 'ha-hdfs:box'],
])('a token from the NameNodes of %s has the service %s', async (fileSystem, service) => {
  const { url, seen } = await daemon({ Token: { urlString: NAME_NODE_TOKEN } }, { long: 7 });
  const source = nameNodeTokens(login, services(url), fileSystem);
  const token = await source.fetch();
  expect(token).toMatchObject({ kind: 'HDFS_DELEGATION_TOKEN', service });
  expect(await source.renew(token)).toBe(7);
  expect(seen.map(({ line }) => line)).toEqual(['GET /webhdfs/v1/', 'PUT /webhdfs/v1/']);
});

test('the ResourceManager receives the token to renew in a header', async () => {
  const { url, seen } = await daemon({ token: NAME_NODE_TOKEN }, { 'expiration-time': '1405153616489' });
  const source = resourceManagerTokens(login, services(url));
  const token = await source.fetch();
  expect(token).toMatchObject({ kind: 'RM_DELEGATION_TOKEN', service: '127.0.0.1:8032' });
  expect(await source.renew(token)).toBe(1_405_153_616_489);
  expect(seen).toMatchObject([
    { line: 'POST /ws/v1/cluster/delegation-token', token: undefined },
    { line: 'POST /ws/v1/cluster/delegation-token/expiration', token: encodeTokenUrl(token) },
  ]);
});

test('errors name the service, and never show the token', async () => {
  const refusal = JSON.stringify({ RemoteException: { exception: 'AccessControlException', message: 'not the renewer' } });
  const { url } = await daemon({ Token: { urlString: NAME_NODE_TOKEN } }, refusal, { Token: null }, {});
  const source = nameNodeTokens(login, services(url), 'hdfs://nn:8020');
  const token = await source.fetch();
  const error = await source.renew(token).catch((thrown: unknown) => thrown as Error);
  expect(error).toMatchObject({ code: 'KERBEROS_FAILED', message: expect.stringContaining('NameNode of hdfs://nn:8020: not the renewer') });
  expect(JSON.stringify([error, String(error)])).not.toContain(encodeTokenUrl(token));
  await expect(source.fetch()).rejects.toMatchObject({
    code: 'HDFS_UNREACHABLE',
    message: 'The NameNode of hdfs://nn:8020 issued no delegation token.',
  });
  await expect(source.renew(token)).rejects.toMatchObject({ code: 'HDFS_UNREACHABLE' });
});
