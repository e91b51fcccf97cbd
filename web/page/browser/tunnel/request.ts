import { type Envelope, envelopeOf, type Header, randomName, sealed, utf8 } from './envelope.ts';
import { native, OUTDATED, renewIfOutdated, TUNNEL, tunnelledPath } from './site.ts';
import { addressesOf, passesPut, requestNow, sendParts, type Transport, transport, transportNow } from './transport.ts';

interface Call {
  readonly method: string;
  readonly path: string;
  readonly address: string;
  readonly asynchronous: boolean;
  readonly headers: Header[];
  /**
   * `opened` -> `packing` (the page has called `send`) -> `sent`. `dropped`: the page aborted the request while it was in the `packing`
   * state.
   */
  state: 'opened' | 'packing' | 'sent' | 'dropped';
}

interface Packed {
  readonly bytes: Uint8Array;
  readonly type: string | null;
}

const calls = new WeakMap<XMLHttpRequest, Call>();
const responseUrl = Object.getOwnPropertyDescriptor(XMLHttpRequest.prototype, 'responseURL');

/** Returns the bytes of a body, or null if the bytes are only available asynchronously. */
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
    // The XMLHttpRequest is still in the OPENED state, so opening it again does not fire an event.
    native.open.call(request, 'GET', content, call.asynchronous);
    native.send.call(request, null);
    return;
  }
  native.setRequestHeader.call(request, 'Content-Type', 'text/plain');
  native.send.call(request, content);
}

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
  // The request is unopened or already sent, so the native method throws the appropriate error.
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
  // Renews an outdated token for the page's next requests. This request cannot be repeated, because the page has already received its
  // response.
  this.addEventListener('load', () => void renewAfter(this), { once: true });
  call.state = 'packing';
  const ready = packedNow(body);
  if (ready !== null && passesPut()) {
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
  // If a part is lost, the response to the last request reports the error.
  if (parts.length > 0 && call.state === 'packing') {
    await sendParts(parts, null).catch(() => {});
  }
  return [way, last];
}

function sendNow(request: XMLHttpRequest, call: Call, body: Document | XMLHttpRequestBodyInit | null | undefined): void {
  const ready = packedNow(body);
  if (ready === null) {
    throw new DOMException('A synchronous request through this gateway cannot carry a file.', 'NetworkError');
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
