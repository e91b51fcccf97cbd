/**
 * Runs before all other scripts of TensorBoard's pages. Gateways such as YARN's proxy refuse POST and some queries: this script sends such
 * requests of fetch and XMLHttpRequest to `tony/tunnel`, as web/tunnel.ts describes, transparently for the page. A probe finds out whether
 * the gateway passes PUT; otherwise the script uses GET.
 */

type Transport = 'put' | 'get';
type Header = readonly [name: string, value: string];

interface Envelope {
  readonly head: string;
  readonly body: string;
}

const script = document.currentScript as HTMLScriptElement;
/** The site's root, including any prefix that gateways add. */
const ROOT = new URL('../../', script.src);
const TUNNEL = new URL('tony/tunnel', ROOT).href;
/** Gateways refuse longer URLs: YARN's proxy beyond 64 KiB, others earlier. */
const MAX_ADDRESS = 6000;
const PARTS_AT_ONCE = 6;
const PROBE_MS = 10_000;
const STRIP_HEIGHT = '34px';
/** The server's error text, see web/tunnel.ts. */
const OUTDATED = 'This page is of an earlier server';

const nativeFetch = window.fetch.bind(window);
const native = {
  open: XMLHttpRequest.prototype.open,
  send: XMLHttpRequest.prototype.send,
  abort: XMLHttpRequest.prototype.abort,
  setRequestHeader: XMLHttpRequest.prototype.setRequestHeader,
};
/** The original class, not patched below, so its requests never use the tunnel. */
const PlainRequest = XMLHttpRequest;

let token = script.dataset.token ?? '';

// ---------------------------------------------------------------------------------------------------------------- which requests

/** Returns the path and query relative to the root if the request needs the tunnel; null if it is sent unchanged. */
function tunnelledPath(method: string, address: string | URL): string | null {
  let url: URL;
  try {
    url = new URL(address, document.baseURI);
  } catch {
    return null;
  }
  if (url.origin !== ROOT.origin || !url.pathname.startsWith(ROOT.pathname)) {
    return null;
  }
  const path = `/${url.pathname.slice(ROOT.pathname.length)}${url.search}`;
  if (/^\/(?:\/|tony\/)/.test(path) || method === 'HEAD') {
    return null;
  }
  return method === 'GET' && passesAsItIs(path) ? null : path;
}

/** YARN's proxy fails on parameters without a value and on some with brackets or quotes, and unescapes `%25` once too often. */
function passesAsItIs(path: string): boolean {
  return (
    /^(?:\/[\w.~:@,+-]*)+(?:\?(?:[\w.~:@,-]+=(?:[\w.~:@,/+*!'()-]|%20|%2C|%2F|%3A|%40)+(?:&|$))*)?$/i.test(path) && !path.includes('//')
  );
}

// -------------------------------------------------------------------------------------------------------------------- envelopes

function base64Url(bytes: Uint8Array): string {
  let letters = '';
  // In chunks, because the number of arguments of a call is limited.
  for (let at = 0; at < bytes.length; at += 0x8000) {
    letters += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  }
  return btoa(letters).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
}

function utf8(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

function envelopeOf(method: string, path: string, headers: readonly Header[], body: Uint8Array): Envelope {
  return { head: base64Url(utf8(JSON.stringify({ m: method, u: path, h: headers }))), body: base64Url(body) };
}

function sealed({ head, body }: Envelope): string {
  return `${token}.${head}.${body}`;
}

function randomName(): string {
  return base64Url(crypto.getRandomValues(new Uint8Array(12)));
}

function tunnelAddress(suffix: string, parameters: Readonly<Record<string, string | number>>): string {
  const query = Object.entries(parameters).map(([name, value]) => `${name}=${value}`);
  return `${TUNNEL}${suffix}?${query.join('&')}`;
}

/** For GET: the URLs of the parts, to request first, and the URL that returns the response. */
function addressesOf(envelope: string): { readonly parts: readonly string[]; readonly last: string } {
  const whole = tunnelAddress('', { e: envelope });
  if (whole.length <= MAX_ADDRESS) {
    return { parts: [], last: whole };
  }
  const id = randomName();
  const room = MAX_ADDRESS - tunnelAddress('/part', { t: token, id, i: 99999, d: '' }).length;
  const count = Math.ceil(envelope.length / room);
  const parts = Array.from({ length: count }, (_, index) =>
    tunnelAddress('/part', { t: token, id, i: index, d: envelope.slice(index * room, (index + 1) * room) }),
  );
  return { parts, last: tunnelAddress('', { t: token, id, n: count }) };
}

async function sendParts(parts: readonly string[], signal: AbortSignal | null): Promise<void> {
  const left = parts.values();
  const worker = async (): Promise<void> => {
    for (const part of left) {
      // A lost part is reported by the response to the last request.
      const answer = await nativeFetch(part, { cache: 'no-store', signal });
      await answer.text();
    }
  };
  await Promise.all(Array.from({ length: PARTS_AT_ONCE }, worker));
}

// ------------------------------------------------------------------------------------------------------------ PUT, or else GET

let found: Transport | null = null;
let finding: Promise<Transport> | null = null;

/** All requests of the page share the result. If neither method works, requests use PUT and the next one probes again. */
function transport(): Promise<Transport> {
  finding ??= probe().then((result) => {
    found = result;
    if (result === null) {
      finding = null;
    }
    return result ?? 'put';
  });
  return finding;
}

async function probe(): Promise<Transport | null> {
  const word = randomName().replaceAll('-', '_');
  for (const way of ['put', 'get'] as const) {
    try {
      const [address, options] = probeBy(way, word);
      const answer = await nativeFetch(address, { ...options, cache: 'no-store', signal: AbortSignal.timeout(PROBE_MS) });
      const text = await answer.text();
      // A gateway may answer 200 without having passed the request on.
      if (answer.ok && text.trim() === word) {
        return way;
      }
      await renewIfOutdated(answer.status, text);
    } catch {
      // No connection, or a gateway that closes it on PUT: try the other method.
    }
  }
  return null;
}

function probeBy(way: Transport, word: string): [address: string, options: RequestInit] {
  const envelope = `${token}.${word}`;
  if (way === 'get') {
    return [tunnelAddress('/probe', { e: envelope }), {}];
  }
  return [`${TUNNEL}/probe`, { method: 'PUT', headers: { 'Content-Type': 'text/plain' }, body: envelope }];
}

/** The same for synchronous requests, which cannot await a promise. */
function transportNow(): Transport {
  if (found !== null) {
    return found;
  }
  const word = randomName().replaceAll('-', '_');
  for (const way of ['put', 'get'] as const) {
    const [address, { method = 'GET', body = null }] = probeBy(way, word);
    try {
      const request = requestNow(method, address, body as string | null);
      if (request.status === 200 && request.responseText.trim() === word) {
        found = way;
        return way;
      }
    } catch {
      // See `probe`.
    }
  }
  return 'put';
}

function requestNow(method: string, address: string, body: string | null): XMLHttpRequest {
  const request = new PlainRequest();
  native.open.call(request, method, address, false);
  if (body !== null) {
    native.setRequestHeader.call(request, 'Content-Type', 'text/plain');
  }
  native.send.call(request, body);
  return request;
}

// ------------------------------------------------------------------------------------------------------ when the server is a new one

let renewing: Promise<void> | null = null;

/** Each attempt of the ApplicationMaster has its own token. If the token is outdated, reads the new one from the site's root page. */
async function renewIfOutdated(status: number, text: string): Promise<boolean> {
  if (status !== 403 || !text.startsWith(OUTDATED)) {
    return false;
  }
  const before = token;
  renewing ??= nativeFetch(ROOT, { cache: 'no-store' })
    .then((answer) => answer.text())
    .then((page) => {
      token = new DOMParser().parseFromString(page, 'text/html').querySelector<HTMLElement>('script[data-token]')?.dataset.token ?? token;
    })
    .catch(() => {})
    .finally(() => {
      renewing = null;
    });
  await renewing;
  return token !== before;
}

// -------------------------------------------------------------------------------------------------------------------------- fetch

async function fetchByTunnel(request: Request, path: string): Promise<Response> {
  const envelope = envelopeOf(request.method, path, [...request.headers], new Uint8Array(await request.arrayBuffer()));
  let answer = await sendByFetch(envelope, request);
  if (answer.status === 403 && (await renewIfOutdated(403, await answer.clone().text()))) {
    answer = await sendByFetch(envelope, request);
  }
  Object.defineProperty(answer, 'url', { value: request.url });
  return answer;
}

async function sendByFetch(envelope: Envelope, { signal, credentials }: Request): Promise<Response> {
  const way = await transport();
  signal.throwIfAborted();
  const options: RequestInit = { signal, credentials, cache: 'no-store' };
  if (way === 'put') {
    return nativeFetch(TUNNEL, { ...options, method: 'PUT', headers: { 'Content-Type': 'text/plain' }, body: sealed(envelope) });
  }
  const { parts, last } = addressesOf(sealed(envelope));
  await sendParts(parts, signal);
  return nativeFetch(last, options);
}

window.fetch = async function fetch(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
  const given = input instanceof Request ? input : null;
  const method = (init?.method ?? given?.method ?? 'GET').toUpperCase();
  const path = tunnelledPath(method, given?.url ?? (input as string | URL));
  return path === null ? nativeFetch(input, init) : fetchByTunnel(new Request(input, init), path);
};

// ----------------------------------------------------------------------------------------------------------------- XMLHttpRequest

interface Call {
  readonly method: string;
  readonly path: string;
  readonly address: string;
  readonly asynchronous: boolean;
  readonly headers: Header[];
  /**
   * `opened` -> `packing` (sent, from the page's point of view) -> `sent`; `dropped` if the page aborted the request while it was packing.
   */
  state: 'opened' | 'packing' | 'sent' | 'dropped';
}

interface Packed {
  readonly bytes: Uint8Array;
  /** The content type, unless the page has set one. */
  readonly type: string | null;
}

const calls = new WeakMap<XMLHttpRequest, Call>();
const responseUrl = Object.getOwnPropertyDescriptor(XMLHttpRequest.prototype, 'responseURL');

/** A body whose bytes are available synchronously; null for one that must be read asynchronously. */
function packedNow(body: Document | XMLHttpRequestBodyInit | null | undefined): Packed | null {
  if (body === null || body === undefined) {
    return { bytes: new Uint8Array(), type: null };
  }
  if (typeof body === 'string') {
    return { bytes: utf8(body), type: 'text/plain;charset=UTF-8' };
  }
  if (body instanceof URLSearchParams) {
    return { bytes: utf8(String(body)), type: 'application/x-www-form-urlencoded;charset=UTF-8' };
  }
  if (body instanceof ArrayBuffer) {
    return { bytes: new Uint8Array(body), type: null };
  }
  if (ArrayBuffer.isView(body)) {
    return { bytes: new Uint8Array(body.buffer, body.byteOffset, body.byteLength), type: null };
  }
  if (body instanceof Document) {
    return { bytes: utf8(new XMLSerializer().serializeToString(body)), type: 'application/xml;charset=UTF-8' };
  }
  if (body instanceof FormData) {
    return formNow(body);
  }
  return null;
}

function formNow(form: FormData): Packed | null {
  const boundary = `----tony${randomName()}`;
  let text = '';
  for (const [name, value] of form) {
    if (typeof value !== 'string') {
      return null;
    }
    const quoted = name.replace(/\r\n|\r|\n/g, '%0D%0A').replaceAll('"', '%22');
    text += `--${boundary}\r\nContent-Disposition: form-data; name="${quoted}"\r\n\r\n${value.replace(/\r\n|\r|\n/g, '\r\n')}\r\n`;
  }
  return { bytes: utf8(`${text}--${boundary}--\r\n`), type: `multipart/form-data; boundary=${boundary}` };
}

async function packed(body: Document | XMLHttpRequestBodyInit | null | undefined): Promise<Packed> {
  const now = packedNow(body);
  if (now !== null) {
    return now;
  }
  const answer = new Response(body as BodyInit);
  return { bytes: new Uint8Array(await answer.arrayBuffer()), type: answer.headers.get('content-type') };
}

function envelopeFor(call: Call, { bytes, type }: Packed): Envelope {
  const hasType = call.headers.some(([name]) => name.toLowerCase() === 'content-type');
  const headers = type === null || hasType ? call.headers : [...call.headers, ['Content-Type', type] as const];
  return envelopeOf(call.method, call.path, headers, bytes);
}

function sendByRequest(request: XMLHttpRequest, call: Call, way: Transport, content: string): void {
  call.state = 'sent';
  if (way === 'get') {
    // The request is still in the state opened, so reopening it fires no event.
    native.open.call(request, 'GET', content, call.asynchronous);
    native.send.call(request, null);
    return;
  }
  native.setRequestHeader.call(request, 'Content-Type', 'text/plain');
  native.send.call(request, content);
}

/** Fires the events of a failed request for one that was never sent. */
function endUnsent(request: XMLHttpRequest, event: 'abort' | 'error', stateAfter: number): void {
  Object.defineProperty(request, 'readyState', { value: XMLHttpRequest.DONE, configurable: true });
  request.dispatchEvent(new Event('readystatechange'));
  request.dispatchEvent(new ProgressEvent(event));
  request.dispatchEvent(new ProgressEvent('loadend'));
  // A listener may have reopened the request.
  if (Object.hasOwn(request, 'readyState')) {
    Object.defineProperty(request, 'readyState', { value: stateAfter, configurable: true });
  }
}

XMLHttpRequest.prototype.open = function open(
  this: XMLHttpRequest,
  method: string,
  address: string | URL,
  wait?: boolean,
  user: string | null = null,
  password: string | null = null,
): void {
  const asynchronous = wait ?? true;
  const before = calls.get(this);
  if (before?.state === 'packing') {
    before.state = 'dropped';
  }
  calls.delete(this);
  Reflect.deleteProperty(this, 'readyState');
  Reflect.deleteProperty(this, 'responseURL');
  const wanted = String(method).toUpperCase();
  const path = tunnelledPath(wanted, address);
  if (path === null) {
    native.open.call(this, method, address, asynchronous, user, password);
    return;
  }
  native.open.call(this, 'PUT', TUNNEL, asynchronous);
  const absolute = new URL(address, document.baseURI).href;
  calls.set(this, { method: wanted, path, address: absolute, asynchronous, headers: [], state: 'opened' });
  Object.defineProperty(this, 'responseURL', {
    configurable: true,
    get: () => (responseUrl?.get?.call(this) ? absolute.replace(/#.*/, '') : ''),
  });
};

XMLHttpRequest.prototype.setRequestHeader = function setRequestHeader(this: XMLHttpRequest, name: string, value: string): void {
  const call = calls.get(this);
  // Not opened or already sent: the browser raises the appropriate error.
  if (call === undefined || call.state === 'sent') {
    native.setRequestHeader.call(this, name, value);
    return;
  }
  if (call.state !== 'opened') {
    throw new DOMException('The request has been sent.', 'InvalidStateError');
  }
  call.headers.push([String(name), String(value)]);
};

XMLHttpRequest.prototype.send = function send(this: XMLHttpRequest, body?: Document | XMLHttpRequestBodyInit | null): void {
  const call = calls.get(this);
  if (call === undefined || call.state === 'sent') {
    native.send.call(this, body);
    return;
  }
  if (call.state !== 'opened') {
    throw new DOMException('The request has been sent.', 'InvalidStateError');
  }
  if (!call.asynchronous) {
    sendNow(this, call, body);
    return;
  }
  // The browser reports the response to the page only, so an outdated token is renewed when the response arrives.
  this.addEventListener('load', () => void renewAfter(this), { once: true });
  call.state = 'packing';
  const ready = packedNow(body);
  if (ready !== null && found === 'put') {
    sendByRequest(this, call, 'put', sealed(envelopeFor(call, ready)));
    return;
  }
  prepare(call, ready ?? body).then(
    ([way, content]) => call.state === 'packing' && sendByRequest(this, call, way, content),
    () => {
      if (call.state !== 'packing') {
        return;
      }
      call.state = 'dropped';
      endUnsent(this, 'error', XMLHttpRequest.DONE);
    },
  );
};

async function prepare(call: Call, given: Packed | Document | XMLHttpRequestBodyInit | null | undefined): Promise<[Transport, string]> {
  const ready =
    given !== null && typeof given === 'object' && 'bytes' in given && !(given instanceof Blob) ? (given as Packed) : await packed(given);
  const way = await transport();
  const content = sealed(envelopeFor(call, ready));
  if (way === 'put') {
    return [way, content];
  }
  const { parts, last } = addressesOf(content);
  // A lost part is reported by the response to the last request.
  if (parts.length > 0 && call.state === 'packing') {
    await sendParts(parts, null).catch(() => {});
  }
  return [way, last];
}

function sendNow(request: XMLHttpRequest, call: Call, body: Document | XMLHttpRequestBodyInit | null | undefined): void {
  const ready = packedNow(body);
  if (ready === null) {
    throw new DOMException('A synchronous request cannot carry a file here.', 'NetworkError');
  }
  const way = transportNow();
  const content = sealed(envelopeFor(call, ready));
  if (way === 'put') {
    sendByRequest(request, call, way, content);
    return;
  }
  const { parts, last } = addressesOf(content);
  for (const part of parts) {
    requestNow('GET', part, null);
  }
  sendByRequest(request, call, way, last);
}

async function renewAfter(request: XMLHttpRequest): Promise<void> {
  const text = request.responseType === '' || request.responseType === 'text' ? request.responseText : OUTDATED;
  await renewIfOutdated(request.status, text);
}

XMLHttpRequest.prototype.abort = function abort(this: XMLHttpRequest): void {
  const call = calls.get(this);
  if (call?.state !== 'packing') {
    native.abort.call(this);
    return;
  }
  call.state = 'dropped';
  endUnsent(this, 'abort', XMLHttpRequest.UNSENT);
};

// ------------------------------------------------------------------------------------------------------------- the way to the job

/** Adds a strip below TensorBoard without covering it, in a shadow tree that TensorBoard's styles do not affect. */
function addLink(): void {
  const strip = document.createElement('nav');
  strip.setAttribute('aria-label', 'tony-ts');
  const shadow = strip.attachShadow({ mode: 'open' });
  // Every content security policy allows a style sheet created by script.
  const style = new CSSStyleSheet();
  style.replaceSync(`
    :host { position: fixed; inset: auto 0 0 0; height: ${STRIP_HEIGHT}; box-sizing: border-box; display: flex; align-items: center; gap: 8px;
      padding: 0 12px; background: #263238; color: #b0bec5; font: 13px/1 Roboto, system-ui, sans-serif; white-space: nowrap; overflow: hidden; }
    a { color: #fff; font-weight: 500; padding: 5px 12px; border: 1px solid #78909c; border-radius: 4px; text-decoration: none; }
    a:hover { background: #455a64; }
    a:focus-visible { outline: 2px solid #ffb300; outline-offset: -1px; }
    @media print { :host { display: none; } }`);
  shadow.adoptedStyleSheets = [style];
  const link = document.createElement('a');
  link.href = new URL('tony/', ROOT).href;
  link.textContent = 'Job';
  shadow.append(link, 'state, tasks, logs');
  // TensorBoard takes the height of the page's body.
  document.body.style.height = `calc(100% - ${STRIP_HEIGHT})`;
  document.body.append(strip);
}

if ('job' in script.dataset && window === window.top) {
  document.addEventListener('DOMContentLoaded', addLink);
}
// Starts the probe while the page loads.
void transport();
