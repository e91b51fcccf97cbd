import { randomName } from './envelope.ts';
import { native, nativeFetch, PlainRequest, renewIfOutdated, TUNNEL, token } from './site.ts';

export type Transport = 'put' | 'get';

/** The maximum length of a URL. YARN's proxy accepts 64 KiB, but other gateways accept less. */
const MAX_ADDRESS = 6000;
const PARTS_AT_ONCE = 6;
const PROBE_MS = 10_000;

function tunnelAddress(suffix: string, parameters: Readonly<Record<string, string | number>>): string {
  const query = Object.entries(parameters).map(([name, value]) => `${name}=${value}`);
  return `${TUNNEL}${suffix}?${query.join('&')}`;
}

/**
 * Returns the URLs of the GET requests for an envelope. The script first requests all `parts`, and then `last`. The response to `last` is
 * TensorBoard's response.
 */
export function addressesOf(envelope: string): { readonly parts: readonly string[]; readonly last: string } {
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

export async function sendParts(parts: readonly string[], signal: AbortSignal | null): Promise<void> {
  const left = parts.values();
  const worker = async (): Promise<void> => {
    for (const part of left) {
      // If a part is lost, the response to the last request reports the error.
      const answer = await nativeFetch(part, { cache: 'no-store', signal });
      await answer.text();
    }
  };
  await Promise.all(Array.from({ length: PARTS_AT_ONCE }, worker));
}

let found: Transport | null = null;
let finding: Promise<Transport> | null = null;

/**
 * Returns the method that the gateway forwards. All of the page's requests share one probe. If the probe fails for both methods, this
 * request uses PUT, and the next request probes again.
 */
export function transport(): Promise<Transport> {
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
      // A gateway may respond with 200 without forwarding the request.
      if (answer.ok && text.trim() === word) {
        return way;
      }
      await renewIfOutdated(answer.status, text);
    } catch {
      // The connection failed, or the gateway closes connections on PUT. In either case, the loop tries the next method.
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

export function passesPut(): boolean {
  return found === 'put';
}

/** Determines the method for a synchronous request, which cannot wait for a promise. */
export function transportNow(): Transport {
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

export function requestNow(method: string, address: string, body: string | null): XMLHttpRequest {
  const request = new PlainRequest();
  native.open.call(request, method, address, false);
  if (body !== null) {
    native.setRequestHeader.call(request, 'Content-Type', 'text/plain');
  }
  native.send.call(request, body);
  return request;
}
