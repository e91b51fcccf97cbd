import { subscribe } from 'node:diagnostics_channel';
import type { ClientRequest, IncomingMessage } from 'node:http';

let writeLine: (line: string) => void = () => {};

/** Changes where the lines of `showRequests` go. A command that redraws its terminal writes all other lines itself. */
export function redirectRequests(write: (line: string) => void): void {
  writeLine = write;
}

/**
 * Writes a line for each HTTP request that this process sends, with its method, address, status, and time until the response begins. A
 * query may contain a token, so the line shows only the WebHDFS operation.
 */
export function showRequests(write: (line: string) => void): void {
  writeLine = write;
  const started = new WeakMap<ClientRequest, number>();
  const show = (request: ClientRequest, outcome: string): void => {
    const since = started.get(request);
    const duration = since === undefined ? '' : ` in ${Math.round(performance.now() - since)} ms`;
    writeLine(`${request.method} ${addressOf(request)}: ${outcome}${duration}`);
  };
  subscribe('http.client.request.start', (message) => {
    started.set((message as { request: ClientRequest }).request, performance.now());
  });
  subscribe('http.client.response.finish', (message) => {
    const { request, response } = message as { request: ClientRequest; response: IncomingMessage };
    show(request, `HTTP ${response.statusCode}`);
  });
  subscribe('http.client.request.error', (message) => {
    const { request, error } = message as { request: ClientRequest; error: Error };
    show(request, error.message);
  });
}

function addressOf(request: ClientRequest): string {
  const url = new URL(request.path, `${request.protocol}//${request.getHeader('host') ?? request.host}`);
  const operation = url.searchParams.get('op');
  return `${url.origin}${url.pathname}${operation === null ? '' : `?op=${operation}`}`;
}
