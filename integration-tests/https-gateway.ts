import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { type IncomingMessage, request, type ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { selfSignedCertificate } from '../client/job/certificate.ts';

const PREFIX = '/gateway/default';

export interface HttpsGateway {
  readonly url: string;
  readonly certificate: string;
  /** The operations of the requests that it has forwarded. */
  readonly operations: Set<string>;
  /** The number of requests that it has rejected, because they lacked the credentials or were for another path. */
  readonly rejected: () => number;
  readonly close: () => void;
}

/**
 * A gateway in front of HttpFS with the properties of a Knox topology: HTTPS with a certificate of its own, a path prefix, and HTTP Basic
 * authentication, after which the gateway asserts the name of the user.
 */
export async function startHttpsGateway(httpFs: string, user: string, password: string): Promise<HttpsGateway> {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const [notBefore, notAfter] = [new Date(Date.now() - 3_600_000), new Date(Date.now() + 3_600_000)];
  const certificate = selfSignedCertificate({ name: 'localhost', serial: randomBytes(16), notBefore, notAfter, privateKey });
  const expected = `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;
  const operations = new Set<string>();
  let rejected = 0;
  const forward = (incoming: IncomingMessage, outgoing: ServerResponse): void => {
    const { authorization, ...headers } = incoming.headers;
    const asked = new URL(incoming.url ?? '', 'https://localhost');
    if (authorization !== expected || !asked.pathname.startsWith(`${PREFIX}/webhdfs/v1/`)) {
      rejected += 1;
      outgoing.writeHead(401).end();
      return;
    }
    operations.add(asked.searchParams.get('op') ?? '');
    const target = new URL(asked.pathname.slice(PREFIX.length) + asked.search, httpFs);
    target.searchParams.set('user.name', user);
    const sent = request(target, { method: incoming.method ?? 'GET', headers: { ...headers, host: target.host } }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    });
    sent.on('error', () => outgoing.destroy());
    incoming.pipe(sent);
  };
  const server = createServer({ key: privateKey.export({ type: 'pkcs8', format: 'pem' }), cert: certificate }, forward);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(0, 'localhost', resolve);
  });
  return {
    url: `https://localhost:${(server.address() as AddressInfo).port}${PREFIX}`,
    certificate,
    operations,
    rejected: () => rejected,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
