import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';

/** The headers of all responses that this server generates itself. */
const HEADERS: OutgoingHttpHeaders = {
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'self'",
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
};

/** Makes the server respond with this status and message. */
export class HttpError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

export interface GeneratedResponse {
  readonly status?: number;
  readonly type: string;
  readonly body: Buffer | string;
  readonly gzip?: Buffer | undefined;
  readonly headers?: OutgoingHttpHeaders;
}

/** Sends a response that this server generates. Browsers do not cache the response unless `headers` sets Cache-Control. */
export function answer(
  request: IncomingMessage,
  response: ServerResponse,
  { status = 200, type, body, gzip, headers }: GeneratedResponse,
): void {
  const plain = typeof body === 'string' ? Buffer.from(body) : body;
  const compressed = gzip !== undefined && acceptsGzip(request);
  const bytes = compressed ? gzip : plain;
  // Closing the connection is cheaper than reading the rest of an unused request body.
  if (hasBody(request) && !request.complete) {
    response.setHeader('Connection', 'close');
  }
  response.writeHead(status, {
    ...HEADERS,
    'Cache-Control': 'no-store',
    'Content-Type': type,
    'Content-Length': bytes.length,
    ...(gzip !== undefined && { Vary: 'Accept-Encoding' }),
    ...(compressed && { 'Content-Encoding': 'gzip' }),
    ...headers,
  });
  response.end(request.method === 'HEAD' ? undefined : bytes);
}

export function answerText(
  request: IncomingMessage,
  response: ServerResponse,
  status: number,
  text: string,
  headers: OutgoingHttpHeaders = {},
): void {
  answer(request, response, { status, type: 'text/plain; charset=utf-8', body: `${text}\n`, headers });
}

export function acceptsGzip(request: IncomingMessage): boolean {
  const accepted = String(request.headers['accept-encoding'] ?? '');
  return accepted.split(',').some((each) => /^\s*(gzip|\*)\s*(;\s*q=(?!0(\.0*)?\s*$)[\d.]+\s*)?$/i.test(each));
}

function hasBody(request: IncomingMessage): boolean {
  return request.headers['transfer-encoding'] !== undefined || Number(request.headers['content-length'] ?? 0) > 0;
}
