import { type Envelope, envelopeOf, sealed } from './envelope.ts';
import { nativeFetch, renewIfOutdated, TUNNEL, tunnelledPath } from './site.ts';
import { addressesOf, sendParts, transport } from './transport.ts';

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
