import { once } from 'node:events';
import { createServer, request as httpRequest, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Path prefix under which the gateway serves the site, as YARN's proxy does. */
export const PREFIX = '/proxy/application_1_0001/';

export interface Gateway {
  readonly url: string;
  /** `METHOD path` of every request received, in order. */
  readonly requests: readonly string[];
  close(): void;
}

/**
 * Starts a gateway between a browser and the site. The gateway forwards GET, the given methods and a few headers. Like real gateways, the
 * gateway responds to other methods with 405 and to URLs longer than `longest` characters with 414.
 */
export async function startGateway(port: number, options: { passes: readonly string[]; longest?: number }): Promise<Gateway> {
  const requests: string[] = [];
  const server: Server = createServer({ maxHeaderSize: 128 << 10 }, (request, response) => {
    const { method = 'GET', url = '/' } = request;
    requests.push(`${method} ${url.split('?', 1)[0]}`);
    const refusal = refusalOf(request, options);
    // As in YARN's proxy, the prefix without its trailing slash serves the same content.
    const path = url === PREFIX.slice(0, -1) ? '/' : url.slice(PREFIX.length - 1);
    if (refusal !== null) {
      response.writeHead(refusal, { 'Content-Type': 'text/html', Connection: 'close' }).end(`<h1>${refusal}</h1>`);
      return;
    }
    const { accept = '*/*', 'accept-encoding': encoding = '', 'content-type': type } = request.headers;
    const headers = { accept, 'accept-encoding': encoding, ...(type !== undefined && { 'content-type': type }) };
    const onwards = httpRequest({ host: '127.0.0.1', port, path, method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    onwards.on('error', () => response.destroy());
    response.on('close', () => onwards.destroy());
    request.pipe(onwards);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const close = (): void => {
    server.close();
    server.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${PREFIX}`, requests, close };
}

function refusalOf(request: IncomingMessage, { passes, longest = 65_000 }: { passes: readonly string[]; longest?: number }): number | null {
  const { method = '', url = '' } = request;
  if (method !== 'GET' && !passes.includes(method)) {
    return 405;
  }
  if (url.length > longest) {
    return 414;
  }
  return url.startsWith(PREFIX.slice(0, -1)) ? null : 500;
}
