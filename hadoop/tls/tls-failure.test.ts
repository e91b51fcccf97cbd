import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer as createHttpServer, type RequestListener } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { rootCertificates } from 'node:tls';
import { afterAll, expect, test } from 'vitest';
import { TonyError } from '../../platform/errors.ts';
import { WebHdfs } from '../hdfs/web-hdfs.ts';
import { HttpClient } from '../http/http-client.ts';
import { SimpleLogin } from '../security/login.ts';
import { listening } from '../testing/http-server.ts';
import { ResourceManager } from '../yarn/resource-manager.ts';
import { additionalAuthorities, DEFAULT_TRUST, ServerTrust } from './server-trust.ts';
import { onSkippedServer } from './skipped-servers.ts';

const folder = mkdtempSync(join(tmpdir(), 'tony-ts-tls-test-'));
const openssl = (line: string): void => void execFileSync('openssl', line.split(' '), { cwd: folder, stdio: 'pipe' });
const read = (name: string): string => readFileSync(join(folder, name), 'utf8');

const KEY = '-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes';
writeFileSync(
  join(folder, 'x.cnf'),
  '[ca]\nbasicConstraints=CA:TRUE\n[good]\nsubjectAltName=DNS:localhost\n[other]\nsubjectAltName=DNS:rm.example.com,IP:10.0.0.1\n',
);
openssl(`req ${KEY} -keyout ca.key -out ca.csr -subj /CN=authority`);
openssl('x509 -req -in ca.csr -signkey ca.key -days 10 -extfile x.cnf -extensions ca -out ca.pem');
openssl(`req ${KEY} -keyout key.pem -out server.csr -subj /CN=localhost`);
for (const [name, days, section] of [
  ['good', 10, 'good'],
  ['other', 10, 'other'],
  ['expired', 0, 'good'],
] as const) {
  openssl(
    `x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days ${days} -extfile x.cnf -extensions ${section} -out ${name}.pem`,
  );
}

const TRUST = ServerTrust.of(read('ca.pem'));
const CONNECT = { 'Content-Type': 'application/json' };
const servers: { close(): unknown }[] = [];
afterAll(() => {
  for (const server of servers) {
    server.close();
  }
  rmSync(folder, { recursive: true, force: true });
});

const answerInfo: RequestListener = (_request, response) => {
  response
    .writeHead(200, CONNECT)
    .end('{"clusterInfo":{"id":1,"startedOn":1,"state":"STARTED","haState":"ACTIVE","hadoopVersion":"3","resourceManagerVersion":"3"}}');
};

async function serve(certificate: string, answer: RequestListener = answerInfo): Promise<number> {
  const server: Server = createServer({ key: read('key.pem'), cert: read(`${certificate}.pem`) }, answer);
  servers.push(server);
  await listening(server);
  return (server.address() as AddressInfo).port;
}

async function servePlain(): Promise<number> {
  const server = createHttpServer(answerInfo);
  servers.push(server);
  await listening(server);
  return (server.address() as AddressInfo).port;
}

/** Returns the error that both HTTP clients report for the address. */
async function ask(address: string, trust: ServerTrust): Promise<string> {
  const http = new HttpClient({ trust });
  const resourceManager = new ResourceManager({ addresses: [address], user: null, login: new SimpleLogin(null), trust });
  try {
    const told = await Promise.all([
      report(http.fetch({ method: 'GET', url: new URL(address), idleTimeoutMs: 5_000 }, { maximumBytes: 1000 })),
      report(resourceManager.clusterInfo()),
    ]);
    expect(told[0]).toBe(told[1]);
    return told[0];
  } finally {
    http.close();
    resourceManager.close();
  }
}

async function report(work: Promise<unknown>): Promise<string> {
  try {
    await work;
    return 'answered';
  } catch (error) {
    expect(error).toBeInstanceOf(TonyError);
    const { code, message, hint } = error as TonyError;
    return `${code} ${message} ${hint}`;
  }
}

test('a server with a certificate from a trusted authority is accepted, but only under the host name in the certificate', async () => {
  const port = await serve('good');
  expect(await ask(`https://localhost:${port}`, TRUST)).toBe('answered');
  expect(await ask(`https://127.0.0.1:${port}`, TRUST)).toMatch(
    /^TLS_FAILED The certificate of 127\.0\.0\.1:\d+ is not valid for this host name, but for localhost\. Use a name/,
  );
});

test('a server of an unknown authority is rejected', async () => {
  const port = await serve('good');
  expect(await ask(`https://localhost:${port}`, DEFAULT_TRUST)).toMatch(
    /^TLS_FAILED The certificate of localhost:\d+ is signed by an authority that is not trusted here \(\w+\)\. Name a truststore/,
  );
});

test('a certificate for other hosts and an expired one are rejected', async () => {
  expect(await ask(`https://localhost:${await serve('other')}`, TRUST)).toContain(
    'is not valid for this host name, but for rm.example.com, 10.0.0.1.',
  );
  expect(await ask(`https://localhost:${await serve('expired')}`, TRUST)).toContain(
    "or its certificate authority has expired. Check this machine's clock",
  );
});

test('the error explains HTTPS to a plain HTTP server, and plain HTTP to an HTTPS server', async () => {
  expect(await ask(`https://localhost:${await servePlain()}`, TRUST)).toContain(
    'speaks plain HTTP, but the configuration says HTTPS. Correct',
  );
  // Node.js closes the connection without an alert, so this server sends the alert that Hadoop's web servers send.
  const alerting = createHttpServer().on('connection', (socket) => socket.end(Buffer.from('15030300020250', 'hex')));
  servers.push(alerting);
  const { port } = new URL(await listening(alerting));
  expect(await ask(`http://localhost:${port}`, TRUST)).toContain(
    'speaks HTTPS, but the configuration says plain HTTP. Set yarn.http.policy',
  );
});

/**
 * Serves a file system. Its NameNode sends the first transfer to the first DataNode, the second transfer to the second DataNode, and so on.
 * Once it has reached the last DataNode, it sends all further transfers there.
 */
async function openFileSystem(...certificates: readonly string[]) {
  const stored: Buffer[] = [];
  const dataNode: RequestListener = async (request, response) => {
    const body = Buffer.concat(await request.toArray());
    if (request.method === 'PUT') {
      stored.push(body);
    }
    response.writeHead(request.method === 'PUT' ? 201 : 200).end('content');
  };
  const ports = await Promise.all(certificates.map((certificate) => serve(certificate, dataNode)));
  let transfers = 0;
  const nameNode = createHttpServer((_, response) => {
    const port = ports[Math.min(transfers++, ports.length - 1)];
    response.writeHead(200, CONNECT).end(JSON.stringify({ Location: `https://localhost:${port}/data` }));
  });
  servers.push(nameNode);
  const hdfs = new WebHdfs({ addresses: [await listening(nameNode)], login: new SimpleLogin('alice'), trust: TRUST, maxWaitMs: 1_000 });
  servers.push(hdfs);
  const skipped: string[] = [];
  onSkippedServer(({ message }) => message.includes(`localhost:${ports[0]} `) && skipped.push(message));
  return { hdfs, skipped, stored };
}

const NEW_FILE = { overwrite: true, permission: 0o600 };

test('a transfer goes to another DataNode if a certificate is not trusted, and each skipped DataNode is reported once', async () => {
  const reading = await openFileSystem('expired', 'other', 'good');
  expect((await reading.hdfs.read('/file')).toString()).toBe('content');
  const writing = await openFileSystem('expired', 'good');
  await writing.hdfs.create('/file', Buffer.from('new'), NEW_FILE);
  expect(writing.stored.map(String)).toEqual(['new']);
  for (const { skipped } of [reading, writing]) {
    expect(skipped).toEqual([expect.stringContaining('has expired')]);
  }
});

test('a transfer fails if no DataNode has a good certificate, or if its source cannot be read again', async () => {
  const { hdfs, skipped } = await openFileSystem('expired');
  expect(await report(hdfs.read('/file'))).toMatch(/^TLS_FAILED The certificate of localhost:\d+ or its .*has expired/);
  const other = await openFileSystem('expired', 'good');
  const once = Readable.from([Buffer.from('new')]);
  expect(await report(other.hdfs.create('/file', once, NEW_FILE))).toMatch(/^TLS_FAILED/);
  expect([skipped, other.skipped, other.stored]).toEqual([[], [], []]);
});

test('authorities that Node.js already trusts and duplicates are omitted', () => {
  const given = [read('ca.pem'), ...rootCertificates, read('ca.pem')].join('\n');
  expect(additionalAuthorities(given)).toBe(read('ca.pem').trim());
  expect(DEFAULT_TRUST.bundle()).toBeNull();
});
