import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { sameSecret } from '../../platform/same-secret.ts';
import { HttpError } from '../server/answer.ts';
import type { UpstreamRequest } from './reverse-proxy.ts';

// YARN's proxy rejects POST, drops most headers and some queries, and corrupts bodies that are not plain text. A script in TensorBoard's
// page (page/browser/tunnel.ts) therefore encodes each affected request as an "envelope" of characters that all gateways forward. It sends
//
//   PUT tony/tunnel                       with the envelope as a text/plain body. If a gateway rejects PUT, the script sends
//   GET tony/tunnel?e=ENVELOPE            or, if that URL would be too long,
//   GET tony/tunnel/part?t=TOKEN&id=ID&i=INDEX&d=CHUNK  for each part of the envelope, in any order, and then
//   GET tony/tunnel?t=TOKEN&id=ID&n=PARTS
//
//   envelope = TOKEN "." base64url(JSON {m: method, u: path and query below the site's root, h: [[header, value], ...]}) "." base64url(body)
//
// The server responds with TensorBoard's response. To find out whether a gateway forwards PUT, the script sends PUT and GET requests to
// tony/tunnel/probe with TOKEN "." NONCE (as the body, or as ?e=), and the server returns the nonce. Only the page contains TOKEN, which
// prevents other sites from forging requests.

/** The maximum size of one envelope in bytes. TensorBoard itself rejects larger forms much earlier, at 1000 parts (about 200 KiB). */
const MAX_ENVELOPE = 16 << 20;
/** The maximum total size in bytes of the bodies that are being read, and of the parts of incomplete envelopes. */
const MAX_READING = 64 << 20;
const MAX_WAITING = 32 << 20;
const MAX_PARTS = 4096;
/** How long incomplete envelopes are kept, in ms. */
const PART_LIFE_MS = 60_000;
const METHODS: readonly string[] = ['GET', 'POST'];

export class Tunnel {
  readonly #token: string;
  readonly #parts = new Map<string, { readonly chunks: Map<number, string>; length: number; readonly timer: NodeJS.Timeout }>();
  #waiting = 0;
  #reading = 0;

  constructor(token: string) {
    this.#token = token;
  }

  async received(request: IncomingMessage, query: URLSearchParams): Promise<UpstreamRequest> {
    return this.#opened(await this.#envelope(request, query));
  }

  /**
   * Returns a probe's nonce; the script compares it with the nonce that it sent.
   * @throws HttpError when the token is wrong.
   */
  async probed(request: IncomingMessage, query: URLSearchParams): Promise<string> {
    const [token = '', nonce = ''] = (await this.#envelope(request, query)).split('.');
    this.#check(token);
    if (!/^\w{1,64}$/.test(nonce)) {
      throw new HttpError(400, 'A probe must consist of a token and a nonce.');
    }
    return nonce;
  }

  keepPart(query: URLSearchParams): void {
    this.#check(query.get('t') ?? '');
    const id = query.get('id') ?? '';
    const index = whole(query.get('i'));
    const chunk = query.get('d') ?? '';
    if (!/^[\w-]{8,64}$/.test(id) || index === null || index >= MAX_PARTS || !/^[\w.-]+$/.test(chunk)) {
      throw new HttpError(400, 'This is not a valid part of a request.');
    }
    const known = this.#parts.get(id);
    const before = known?.chunks.get(index)?.length ?? 0;
    if (this.#waiting + chunk.length - before > MAX_WAITING || (known?.length ?? 0) + chunk.length - before > MAX_ENVELOPE) {
      throw new HttpError(413, 'The parts of incomplete requests take too much memory: try again.');
    }
    const parts = known ?? { chunks: new Map<number, string>(), length: 0, timer: setTimeout(() => this.#forget(id), PART_LIFE_MS) };
    parts.timer.unref();
    parts.chunks.set(index, chunk);
    parts.length += chunk.length - before;
    this.#waiting += chunk.length - before;
    this.#parts.set(id, parts);
  }

  close(): void {
    for (const id of [...this.#parts.keys()]) {
      this.#forget(id);
    }
  }

  async #envelope(request: IncomingMessage, query: URLSearchParams): Promise<string> {
    if (request.method === 'PUT') {
      return this.#body(request);
    }
    return query.get('e') ?? this.#joined(query);
  }

  #joined(query: URLSearchParams): string {
    this.#check(query.get('t') ?? '');
    const id = query.get('id') ?? '';
    const count = whole(query.get('n'));
    const parts = this.#parts.get(id);
    if (parts === undefined || count === null || parts.chunks.size !== count) {
      throw new HttpError(409, 'Parts of this request are missing or have expired.');
    }
    this.#forget(id);
    return Array.from({ length: count }, (_, index) => parts.chunks.get(index) ?? '').join('');
  }

  #forget(id: string): void {
    const parts = this.#parts.get(id);
    if (parts === undefined) {
      return;
    }
    clearTimeout(parts.timer);
    this.#waiting -= parts.length;
    this.#parts.delete(id);
  }

  async #body(request: IncomingMessage): Promise<string> {
    const chunks: Buffer[] = [];
    let length = 0;
    try {
      for await (const chunk of request as AsyncIterable<Buffer>) {
        length += chunk.length;
        this.#reading += chunk.length;
        if (length > MAX_ENVELOPE) {
          throw new HttpError(413, `A request must not exceed ${MAX_ENVELOPE >> 20} MiB.`);
        }
        if (this.#reading > MAX_READING) {
          throw new HttpError(503, 'Too many requests are in progress: try again.');
        }
        chunks.push(chunk);
      }
    } finally {
      this.#reading -= length;
    }
    return Buffer.concat(chunks, length).toString('latin1');
  }

  #opened(envelope: string): UpstreamRequest {
    const [token = '', head = '', body = ''] = envelope.split('.', 3);
    this.#check(token);
    let decoded: { m?: unknown; u?: unknown; h?: unknown };
    try {
      decoded = JSON.parse(Buffer.from(head, 'base64url').toString()) as typeof decoded;
    } catch {
      throw new HttpError(400, 'The request is damaged.');
    }
    const { m: method, u: path, h: pairs } = decoded ?? {};
    if (typeof method !== 'string' || !METHODS.includes(method)) {
      throw new HttpError(405, `TensorBoard supports only ${METHODS.join(' and ')}.`);
    }
    // Accepts the paths that Node's HTTP client can send, except paths to another host and to this site's own pages.
    if (typeof path !== 'string' || !/^\/(?!\/|tony(?:[/?]|$))[\x21-\x7e]*$/.test(path)) {
      throw new HttpError(400, 'The path is not a valid TensorBoard path.');
    }
    return { method, path, headers: headersOf(pairs), body: method === 'GET' ? null : Buffer.from(body, 'base64url') };
  }

  #check(token: string): void {
    // page/browser/tunnel/site.ts checks for this text.
    if (!sameSecret(token, this.#token)) {
      throw new HttpError(403, 'This page is outdated because the server has restarted: reload the page.');
    }
  }
}

/** Converts the pairs to headers. Drops headers that HTTP clients cannot send. */
function headersOf(pairs: unknown): IncomingHttpHeaders {
  const headers: IncomingHttpHeaders = {};
  for (const pair of Array.isArray(pairs) ? (pairs as unknown[]).slice(0, 100) : []) {
    const [name, value] = Array.isArray(pair) ? (pair as unknown[]) : [];
    if (typeof name === 'string' && typeof value === 'string' && /^[\w-]{1,100}$/.test(name) && /^[\x20-\x7e]{0,8192}$/.test(value)) {
      headers[name.toLowerCase()] = value;
    }
  }
  return headers;
}

function whole(text: string | null): number | null {
  return text !== null && /^\d{1,6}$/.test(text) ? Number(text) : null;
}
