import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { TonyError } from '../../platform/errors.ts';
import { ProxyAccess } from './serve.ts';

/** Starts a server that responds with the user's name. Returns a function that sends raw header lines and returns the response. */
async function serve(proxies: readonly string[] = ['localhost']): Promise<(...lines: string[]) => Promise<string>> {
  const access = new ProxyAccess({
    proxies,
    header: 'x-remote-user',
    userOf: async (name) => {
      if (name.endsWith('@OTHER.TEST')) {
        throw new TonyError('KERBEROS_REALM_DENIED', `There is no rule for ${name}.`);
      }
      return name.split(/[/@]/)[0] ?? '';
    },
    viewers:
      async ({ user: owner }) =>
      (user) =>
        user === owner,
    hosts: ['history.example'],
  });
  const server = createServer(async (request, response) => {
    const visitor = await access.admit(request, response);
    if (visitor !== null) {
      response.end(`user ${visitor.user}`);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  return async (...lines) => {
    const socket = connect(port, '127.0.0.1');
    socket.write(`GET / HTTP/1.1\r\n${['Connection: close', ...lines].join('\r\n')}\r\n\r\n`);
    return text(socket);
  };
}

const HOST = 'Host: history.example';

test.each([
  ['alice', 'alice'],
  ['alice@EXAMPLE.TEST', 'alice'],
  ['alice/admin@EXAMPLE.TEST', 'alice'],
])('the proxy authenticates %s', async (name, user) => {
  const send = await serve();
  expect(await send(HOST, `X-Remote-User: ${name}`)).toMatch(new RegExp(`^HTTP/1\\.1 200 .*user ${user}`, 's'));
});

test.each<[string, string[], RegExp]>([
  ['without a user', [HOST], /sent no user name in the header x-remote-user/],
  ['with an empty user', [HOST, 'X-Remote-User:'], /sent no user/],
  [
    'with two users, of which one comes from the client',
    [HOST, 'X-Remote-User: bob', 'x-remote-user: alice'],
    /several x-remote-user headers/,
  ],
  ['with a list of users', [HOST, 'X-Remote-User: bob, alice'], /invalid user name/],
  ['with markup', [HOST, 'X-Remote-User: <b>'], /invalid user name/],
  [
    'of a user whom the rules of the cluster do not cover',
    [HOST, 'X-Remote-User: carol@OTHER.TEST'],
    /There is no rule for carol@OTHER\.TEST/,
  ],
  ['for another host name', ['Host: attacker.example', 'X-Remote-User: alice'], /does not accept requests for this host name/],
])('rejects a request %s', async (_, lines, message) => {
  const answer = await (await serve())(...lines);
  expect(answer).toMatch(/^HTTP\/1\.1 403 /);
  expect(answer).toMatch(message);
});

test('expects connections from the proxy only', async () => {
  const viewers = async () => () => true;
  const access = new ProxyAccess({ proxies: ['127.0.0.2'], header: 'x', userOf: async (name) => name, viewers, hosts: [] });
  await expect.poll(() => access.expects('127.0.0.1')).toBe(false);
  expect(access.expects('::ffff:127.0.0.2')).toBe(true);
});

test('rejects requests that do not come from the proxy', async () => {
  const send = await serve(['127.0.0.2', 'unknown.invalid']);
  expect(await send(HOST, 'X-Remote-User: alice')).toMatch(/^HTTP\/1\.1 403 .*answers only requests from its proxy/s);
});
