import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { loginOf, servicesOf } from '../hadoop/configuration/login/login-of.ts';
import { encodeCredentials, encodeTokenUrl, type Token } from '../hadoop/rpc/credentials.ts';
import { keyServerTokens, nameNodeTokens, resourceManagerTokens } from '../hadoop/security/fetch-tokens.ts';
import type { Login } from '../hadoop/security/login.ts';
import { listening } from '../hadoop/testing/http-server.ts';
import { Secret } from '../platform/secret.ts';
import { createStorage } from './create-storage.ts';
import type { Storage } from './storage.ts';

/**
 * Checks which servers receive a delegation token or a cookie if a job's URI, a redirect or a token issuer's answer leads to other servers.
 * All servers are real HTTP servers on the loopback interface.
 */

interface Daemon {
  readonly url: URL;
  /** Everything that the server has received: request lines and headers. */
  readonly received: string[];
  answer: (request: IncomingMessage, response: ServerResponse) => unknown;
}

const TOKEN: Token = {
  identifier: Buffer.from('identifier'),
  password: new Secret(Buffer.from('password')),
  kind: 'HDFS_DELEGATION_TOKEN',
  service: '127.0.0.1:8020',
};
const SENT = encodeURIComponent(encodeTokenUrl(TOKEN));

let folder: string;
let servers: Server[];
let storages: Storage[];
let nameNode: Daemon;
let resourceManager: Daemon;
let keyServer: Daemon;
let gateway: Daemon;
let stranger: Daemon;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tony-ts-recipients-'));
  const file = join(folder, 'tokens');
  await writeFile(file, encodeCredentials({ tokens: [{ alias: 'a', token: TOKEN }], secrets: new Map() }));
  vi.stubEnv('HADOOP_TOKEN_FILE_LOCATION', file);
  [servers, storages] = [[], []];
  [nameNode, resourceManager, keyServer, gateway, stranger] = await Promise.all([daemon(), daemon(), daemon(), daemon(), daemon()]);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  for (const storage of storages) {
    storage.close();
  }
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
  await rm(folder, { recursive: true, force: true });
});

async function daemon(): Promise<Daemon> {
  const received: string[] = [];
  const server = createServer((request, response) => {
    received.push(`${request.method} ${request.url} ${JSON.stringify(request.headers)}`);
    request.resume();
    started.answer(request, response);
  });
  servers.push(server);
  const started: Daemon = { url: new URL(await listening(server)), received, answer: (_, response) => response.end('{}') };
  return started;
}

function redirectTo(location: string): Daemon['answer'] {
  return (_, response) => response.writeHead(307, { Location: location, 'Content-Type': 'application/json' }).end();
}

function configuration(properties: Readonly<Record<string, string>> = {}): HadoopConfiguration {
  return HadoopConfiguration.fromProperties({
    'hadoop.security.authentication': 'kerberos',
    'fs.defaultFS': 'hdfs://127.0.0.1:8020',
    'dfs.namenode.rpc-address': '127.0.0.1:8020',
    'dfs.namenode.http-address': nameNode.url.host,
    'yarn.resourcemanager.hostname': '127.0.0.1',
    'yarn.resourcemanager.webapp.address': resourceManager.url.host,
    'hadoop.security.key.provider.path': `kms://http@127.0.0.1:${keyServer.url.port}/kms`,
    ...properties,
  });
}

function opened(properties: Readonly<Record<string, string>> = {}): Storage {
  const storage = createStorage({ hadoop: configuration(properties), user: 'alice', maxWaitMs: 300 });
  storages.push(storage);
  return storage;
}

async function codeOf(action: Promise<unknown>): Promise<string> {
  return action.then(
    () => 'none',
    (error: { code?: string }) => error.code ?? 'none',
  );
}

test('a file system in a URI receives the token only if it is a file system of the configuration', async () => {
  await codeOf(opened().read('hdfs:///x'));
  expect(nameNode.received[0]).toContain(SENT);
  nameNode.received.length = 0;
  for (const { url, received } of [stranger, resourceManager, keyServer]) {
    expect(await codeOf(opened().read(`webhdfs://${url.host}/x`))).toBe('SERVER_DENIED');
    expect(await codeOf(opened().read(`webhdfs://${nameNode.url.host}@${url.host}/x`))).toBe('HADOOP_CONF_INVALID');
    expect(received).toEqual([]);
  }
});

test.each(['read', 'write'] as const)("a NameNode's redirect of a %s carries no identity that this client added", async (operation) => {
  nameNode.answer = (_, response) => response.end(JSON.stringify({ Location: `${stranger.url.origin}/webhdfs/v1/x?op=OPEN` }));
  const storage = opened();
  await codeOf(operation === 'read' ? storage.read('hdfs:///x') : storage.write('hdfs:///x', Buffer.from('content')));
  expect(nameNode.received[0]).toContain(SENT);
  expect(stranger.received).not.toEqual([]);
  expect(stranger.received.filter((request) => /delegation|authorization|cookie|user\.name/i.test(request))).toEqual([]);
});

test.each(['read', 'write'] as const)(
  'a gateway that redirects a %s leads no identity and no data to another server',
  async (operation) => {
    const storage = opened({ 'tony.storage.gateway': gateway.url.origin });
    const act = (): Promise<unknown> =>
      operation === 'read' ? storage.read('hdfs:///x') : storage.write('hdfs:///x', Buffer.from('content'));
    const authority = `${gateway.url.host}@${stranger.url.host}`;
    const locations = [
      `${stranger.url.origin}/webhdfs/v1/x?op=CREATE&data=true`,
      `//${stranger.url.host}/webhdfs/v1/x?op=CREATE&data=true`,
      `http://${authority}/webhdfs/v1/x?data=true`,
      `${stranger.url.origin}/gateway/default/webhdfs/data/v1/x`,
      `\\\\${stranger.url.host}\\webhdfs`,
    ];
    for (const location of locations) {
      gateway.answer = redirectTo(location);
      await codeOf(act());
    }
    expect(gateway.received.length).toBeGreaterThanOrEqual(locations.length);
    expect(gateway.received[0]).toContain(SENT);
    expect([stranger.received, nameNode.received]).toEqual([[], []]);
  },
);

/** A login with a ticket. Scripts replace the Kerberos tools, so that a cookie stands for the ticket. */
async function withTicket(hadoop: HadoopConfiguration): Promise<Login> {
  const klist = "printf 'Ticket cache: FILE:/cache\\nDefault principal: alice@X\\n\\n01/01/26 00:00:00  01/01/60 00:00:00  krbtgt/X@X\\n'";
  const curl = `for url; do :; done; echo "$url" >> ${folder}/signed; printf 'HTTP/1.1 200 OK\\r\\nSet-Cookie: hadoop.auth=COOKIE\\r\\n\\r\\n'`;
  for (const [name, command] of Object.entries({ klist, curl })) {
    await writeFile(join(folder, name), `#!/bin/sh\n${command}\n`, { mode: 0o755 });
  }
  return loginOf(hadoop, 'alice', { PATH: `${folder}:/usr/bin:/bin` });
}

test('an issuer of tokens that redirects leads no cookie to another server', async () => {
  const hadoop = configuration();
  const login = await withTicket(hadoop);
  const services = servicesOf(hadoop);
  const issuers = [nameNode, resourceManager, keyServer];
  for (const each of issuers) {
    const redirect = redirectTo(`${stranger.url.origin}/webhdfs/v1/?op=GETDELEGATIONTOKEN`);
    each.answer = (request, response) => (each.received.length === 1 ? redirect(request, response) : response.writeHead(403).end('{}'));
  }
  const sources = [
    nameNodeTokens(login, services, 'hdfs://127.0.0.1:8020'),
    resourceManagerTokens(login, services),
    keyServerTokens(login, services, services.keyServers ?? { service: '', addresses: [] }),
  ];
  expect(await Promise.all(sources.map((source) => codeOf(source.fetch())))).toEqual(issuers.map(() => 'KERBEROS_FAILED'));
  for (const { received } of issuers) {
    expect(received.map((request) => request.includes('hadoop.auth=COOKIE'))).toEqual([true, true]);
  }
  expect(stranger.received).toEqual([]);
  const signed = (await readFile(join(folder, 'signed'), 'utf8')).trim().split('\n');
  expect(new Set(signed.map((url) => new URL(url).host))).toEqual(new Set(issuers.map(({ url }) => url.host)));
});
