import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { rootCertificates } from 'node:tls';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { DEFAULT_TRUST, ServerTrust } from '../tls/server-trust.ts';
import { KnownServers } from './known-servers.ts';
import { sendAs } from './login.ts';
import { TicketLogin, TicketOnDemand } from './ticket-login.ts';

/**
 * These tests replace the Kerberos tools with scripts. integration-tests/own-cluster/kerberos.test.ts runs the real tools against real
 * daemons.
 */
const KLIST = `#!/bin/sh
printf 'Ticket cache: FILE:/cache\\nDefault principal: alice@EXAMPLE.TEST\\n\\n'
printf '01/01/26 00:00:00  01/01/60 00:00:00  krbtgt/EXAMPLE.TEST@EXAMPLE.TEST\\n'
`;
const RM = new URL('http://rm:8088/ws/v1/cluster/apps');
const SERVICES = {
  trust: DEFAULT_TRUST,
  servers: new KnownServers(['http://rm:8088', 'https://rm:8090', 'http://nn:9870']),
  resourceManagers: [],
  resourceManagerEndpoints: [],
  renewer: 'yarn',
  tokenIssuer: () => ({ addresses: [], scheme: 'hdfs', endpoint: null, authority: '' }),
  keyServers: null,
};

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tony-ts-login-'));
  await program('klist', KLIST);
});
afterEach(() => rm(folder, { recursive: true, force: true }));

async function program(name: string, text: string): Promise<void> {
  await writeFile(join(folder, name), text);
  await chmod(join(folder, name), 0o755);
}

/** A fake curl that logs its arguments and prints the response `head`. \`$N\` expands to the run's number. */
async function curlAnswers(head: string, exitCode = 0): Promise<TicketLogin> {
  const log = join(folder, 'runs');
  await program('curl', `#!/bin/sh\necho "$* $KRB5CCNAME" >> ${log}\nN=$(wc -l < ${log})\nprintf "${head}"\nexit ${exitCode}\n`);
  return new TicketLogin('alice', SERVICES, { PATH: `${folder}:/usr/bin:/bin` });
}

const runs = async (): Promise<string[]> => (await readFile(join(folder, 'runs'), 'utf8')).trim().split('\n');
const WITH_COOKIE = 'HTTP/1.1 401 no\\r\\n\\r\\nHTTP/1.1 200 OK\\r\\nSet-Cookie: hadoop.auth=n$N; Path=/\\r\\n\\r\\n{}';

test('signs in once to each server', async () => {
  const login = await curlAnswers(WITH_COOKIE);
  const [first, second] = await Promise.all([login.identify(RM), login.identify(RM)]);
  expect(first).toEqual({ query: {}, headers: { Cookie: 'hadoop.auth=n1' } });
  expect(second).toEqual(first);
  await login.identify(new URL('http://nn:9870/webhdfs/v1/a?op=OPEN'));
  await login.identify(new URL('http://nn:9870/jmx'));
  const urls = (await runs()).map((line) => /--user : (\S+) FILE:\/cache$/.exec(line)?.[1]);
  expect(urls).toEqual([
    'http://rm:8088/ws/v1/cluster/info',
    'http://nn:9870/webhdfs/v1/?op=GETHOMEDIRECTORY',
    'http://nn:9870/jmx?qry=none',
  ]);
});

test('signs in again, once, to a server that no longer accepts its cookie', async () => {
  const login = await curlAnswers(WITH_COOKIE);
  const sent: unknown[] = [];
  const send = async (_: URL, headers: Readonly<Record<string, string>>): Promise<number> => {
    sent.push(headers.Cookie);
    return headers.Cookie === 'hadoop.auth=n2' ? 200 : 401;
  };
  expect(await sendAs(login, RM, send, (status) => status)).toBe(200);
  expect(sent).toEqual(['hadoop.auth=n1', 'hadoop.auth=n2']);
});

test.each([
  'http://evil:9870/webhdfs/v1/x?op=OPEN',
  'http://nn:9871/webhdfs/v1/x',
  'https://nn:9870/webhdfs/v1/x',
  'http://nn/webhdfs/v1/x',
  'http://nn.evil:9870/webhdfs/v1/x',
  'http://rm@evil:8088/ws/v1/cluster/info',
  'http://node:8042/ws/v1/node/info',
])('never signs in to a server that neither the configuration nor the ResourceManager names (%s)', async (url) => {
  const login = await curlAnswers(WITH_COOKIE);
  const send = async (): Promise<number> => 200;
  await expect(sendAs(login, new URL(url), send, (status) => status)).rejects.toMatchObject({ code: 'SERVER_DENIED' });
  await expect(runs()).rejects.toMatchObject({ code: 'ENOENT' });
});

test('signs in to a NodeManager that the ResourceManager names', async () => {
  const login = await curlAnswers(WITH_COOKIE);
  login.admit(['http://node:8042', 'http://[bad']);
  expect((await login.identify(new URL('http://NODE:8042/ws/v1/node/info'))).headers.Cookie).toBe('hadoop.auth=n1');
  await expect(login.identify(new URL('http://node:8043/ws/v1/node/info'))).rejects.toMatchObject({ code: 'SERVER_DENIED' });
});

test('renews a cookie before it expires', async () => {
  const login = await curlAnswers(`HTTP/1.1 200 OK\\r\\nSet-Cookie: hadoop.auth=e=${Date.now() + 30_000}&n=$N\\r\\n\\r\\n`);
  await login.identify(RM);
  expect((await login.identify(RM)).headers.Cookie).toMatch(/n=2$/);
});

test('sends only the user name to a server that requires no login', async () => {
  const login = await curlAnswers('HTTP/1.1 200 OK\\r\\n\\r\\n{}');
  expect(await login.identify(RM)).toEqual({ query: { 'user.name': 'alice' }, headers: {} });
  expect(await login.identify(RM)).toEqual({ query: { 'user.name': 'alice' }, headers: {} });
  expect(await runs()).toHaveLength(1);
});

test('tries again to sign in to a server that did not respond', async () => {
  const login = await curlAnswers('', 7);
  await login.identify(RM);
  await login.identify(RM);
  expect(await runs()).toHaveLength(2);
});

test('the error names a server whose certificate curl does not trust', async () => {
  const login = await curlAnswers('', 60);
  await expect(login.identify(RM)).rejects.toMatchObject({ code: 'TLS_FAILED', message: expect.stringContaining('rm:8088: exit 60') });
});

test('a ResourceManager whose web server requires no login issues no token for RPC', async () => {
  await program('curl', '#!/bin/sh\nprintf "HTTP/1.1 200 OK\\r\\n\\r\\n{}"\n');
  const services = { ...SERVICES, resourceManagers: ['http://rm:8088'] };
  const login = new TicketLogin('alice', services, { PATH: `${folder}:/usr/bin:/bin` });
  await expect(login.rpcToken('resource-manager')).rejects.toMatchObject({
    code: 'KERBEROS_FAILED',
    message: expect.stringContaining('requires no login'),
  });
  expect(await login.jobTokens([])).toEqual([]);
});

test("the message quotes the reason from a daemon's error page, without markup", async () => {
  const login = await curlAnswers('HTTP/1.1 403 no\\r\\n\\r\\n<html><title>x</title><h2>No rules applied to alice@OTHER.TEST</h2></html>');
  await expect(login.identify(RM)).rejects.toMatchObject({
    code: 'KERBEROS_REALM_DENIED',
    message: 'Kerberos rejected the identity of this user at rm:8088: No rules applied to alice@OTHER.TEST.',
  });
});

test('a principal without a rule on the server is rejected, although the server returns HTTP 500', async () => {
  const reason = 'org.apache.hadoop.security.authentication.util.KerberosName$NoMatchingRule: No rules applied to carol@OTHER.TEST';
  const page = `<h2>HTTP ERROR 500 ${reason}</h2><table><tr><th>URI:</th><td>/</td></tr><tr><th>MESSAGE:</th><td>${reason}</td></tr></table>`;
  const login = await curlAnswers(`HTTP/1.1 401 no\\r\\n\\r\\nHTTP/1.1 500 Server Error\\r\\n\\r\\n${page.replaceAll('$', '\\$')}`);
  await expect(login.identify(RM)).rejects.toMatchObject({
    code: 'KERBEROS_REALM_DENIED',
    message: 'Kerberos rejected the identity of this user at rm:8088: No rules applied to carol@OTHER.TEST.',
  });
});

test('signs in to a server of an unknown cluster only if it requires a login', async () => {
  await curlAnswers(WITH_COOKIE);
  const login = new TicketOnDemand(RM, { PATH: `${folder}:/usr/bin:/bin` }, DEFAULT_TRUST);
  expect(await login.identify(RM)).toEqual({ query: {}, headers: {} });
  const send = async (_: URL, headers: Readonly<Record<string, string>>): Promise<number> => (headers.Cookie === undefined ? 401 : 200);
  expect(await sendAs(login, RM, send, (status) => status)).toBe(200);
  await expect(
    sendAs(
      login,
      new URL('http://nn:9870/conf'),
      async () => 401,
      (status) => status,
    ),
  ).rejects.toMatchObject({ code: 'SERVER_DENIED' });
});

test("curl reads the cluster's authorities from a temporary file, which is removed afterwards", async () => {
  const seen = join(folder, 'seen');
  await program(
    'curl',
    `#!/bin/sh\nwhile [ "$1" != --cacert ]; do shift; done\ncp "$2" ${seen}\necho "$2" > ${seen}.name\nprintf 'HTTP/1.1 200 OK\\r\\nSet-Cookie: hadoop.auth=n\\r\\n\\r\\n{}'\n`,
  );
  const authority = await readFile(new URL('../golden/tls/ca.pem', import.meta.url), 'utf8');
  const login = new TicketLogin('alice', { ...SERVICES, trust: ServerTrust.of(authority) }, { PATH: `${folder}:/usr/bin:/bin` });
  expect((await login.identify(new URL('https://rm:8090/ws/v1/cluster/info'))).headers.Cookie).toBe('hadoop.auth=n');
  const bundle = await readFile(seen, 'utf8');
  expect(bundle).toContain(authority);
  expect(bundle).toContain(rootCertificates[0]);
  await expect(readFile((await readFile(`${seen}.name`, 'utf8')).trim())).rejects.toMatchObject({ code: 'ENOENT' });
});
