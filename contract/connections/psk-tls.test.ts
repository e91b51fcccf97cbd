import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createServer, type TlsOptions, connect as tlsConnect } from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import { listening } from '../testing/listening.ts';
import { spy } from '../testing/spy.ts';
import { acceptTls, dialTls, pskClientOptions } from './psk-tls.ts';

const KEY = randomBytes(32);

/** Connects two sockets. @param through opens a proxy, and returns its port. */
async function pair(through: (port: number) => Promise<number> = async (port) => port): Promise<{ client: Socket; server: Socket }> {
  const { server, address } = await listening();
  onTestFinished(() => void server.close());
  const accepted = once(server, 'connection') as Promise<[Socket]>;
  const client = connect(await through(address.port), '127.0.0.1').on('error', () => {});
  const [other] = await accepted;
  other.on('error', () => {});
  onTestFinished(() => {
    client.destroy();
    other.destroy();
  });
  return { client, server: other };
}

test('both ends use TLS 1.3 with a fresh secret for each connection, and exchange data in both directions', async () => {
  const { client, server } = await pair();
  const [dialed, accepted] = await Promise.all([dialTls(client, KEY), acceptTls(server, KEY)]);
  for (const end of [dialed, accepted]) {
    expect([end.getProtocol(), end.getCipher().name]).toEqual(['TLSv1.3', 'TLS_AES_128_GCM_SHA256']);
  }
  expect(dialed.getEphemeralKeyInfo()).toMatchObject({ type: expect.any(String) });
  dialed.write('to the server');
  accepted.write('to the client');
  const [toServer, toClient] = await Promise.all([once(accepted, 'data'), once(dialed, 'data')]);
  expect([String(toServer[0]), String(toClient[0])]).toEqual(['to the server', 'to the client']);
});

test('both ends reject another key', async () => {
  const { client, server } = await pair();
  const results = await Promise.allSettled([dialTls(client, KEY), acceptTls(server, randomBytes(32))]);
  expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
});

/** Starts a server that an attacker controls. */
async function attacker(options: TlsOptions): Promise<Socket> {
  const server = createServer(options, (socket) => socket.on('error', () => {})).on('tlsClientError', () => {});
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const client = connect((server.address() as { port: number }).port, '127.0.0.1').on('error', () => {});
  onTestFinished(() => void client.destroy());
  return client;
}

function certificate(): { key: Buffer; cert: Buffer } {
  const folder = mkdtempSync(path.join(tmpdir(), 'tony-psk-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const [key, cert] = [path.join(folder, 'key.pem'), path.join(folder, 'cert.pem')];
  execFileSync('openssl', [
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2', '-subj', '/CN=localhost'],
    ...['-addext', 'subjectAltName=IP:127.0.0.1,DNS:localhost', '-keyout', key, '-out', cert],
  ]);
  return { key: readFileSync(key), cert: readFileSync(cert) };
}

test.each<[string, TlsOptions]>([
  ['TLS 1.3', {}],
  ['TLS 1.2', { maxVersion: 'TLSv1.2' }],
])('the client rejects a server with a certificate instead of the key (%s)', async (_, options) => {
  await expect(dialTls(await attacker({ ...certificate(), ...options }), KEY)).rejects.toThrow();
});

test('the client rejects a certificate even if it trusts the authority', async () => {
  const pem = certificate();
  const socket = await attacker(pem);
  const dialed = tlsConnect({ ...pskClientOptions(KEY), ca: pem.cert, socket });
  const [error] = await once(dialed, 'error');
  expect(String(error)).toContain('instead of proving that it has the key');
});

test.each([
  ['without a key', { rejectUnauthorized: false }],
  ['with another identity', { ...pskClientOptions(KEY), pskCallback: () => ({ identity: 'another', psk: KEY }) }],
  ['that supports only TLS 1.2', { ...pskClientOptions(KEY), minVersion: 'TLSv1.2', maxVersion: 'TLSv1.2', ciphers: 'PSK' }],
] as const)('the server rejects a client %s', async (_, options) => {
  const { client, server } = await pair();
  const refused = expect(acceptTls(server, KEY)).rejects.toThrow();
  tlsConnect({ ...options, socket: client }).on('error', () => {});
  await refused;
});

test('the server rejects data that is not TLS, and a client that disconnects', async () => {
  const plain = await pair();
  plain.client.write('GET / HTTP/1.1\r\n\r\n');
  await expect(acceptTls(plain.server, KEY)).rejects.toThrow();
  const silent = await pair();
  const refused = expect(acceptTls(silent.server, KEY)).rejects.toThrow();
  silent.client.destroy();
  await refused;
});

test("the server rejects another connection's recorded data", async () => {
  const recorded: Buffer[] = [];
  const { client, server } = await pair((port) => spy(port, (chunk, fromDialer) => fromDialer && recorded.push(Buffer.from(chunk))));
  const [dialed, accepted] = await Promise.all([dialTls(client, KEY), acceptTls(server, KEY)]);
  dialed.write('once');
  await once(accepted, 'data');
  const again = await pair();
  again.client.write(Buffer.concat(recorded));
  const received: Buffer[] = [];
  await expect(acceptTls(again.server, KEY).then((socket) => socket.on('data', (chunk: Buffer) => received.push(chunk)))).rejects.toThrow();
  expect(received).toEqual([]);
});
