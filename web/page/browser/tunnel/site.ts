// The site's URLs, the browser's native request functions, and the tunnel's token.

export const script = document.currentScript as HTMLScriptElement;
/** The site's root, including the path prefix that gateways add. */
export const ROOT = new URL('../../', script.src);
export const TUNNEL = new URL('tony/tunnel', ROOT).href;
/** The beginning of the server's error message for an outdated token (web/proxy/tunnel.ts). */
export const OUTDATED = 'This page is outdated';

export const nativeFetch = window.fetch.bind(window);
export const native = {
  open: XMLHttpRequest.prototype.open,
  send: XMLHttpRequest.prototype.send,
  abort: XMLHttpRequest.prototype.abort,
  setRequestHeader: XMLHttpRequest.prototype.setRequestHeader,
};
/** The XMLHttpRequest class for the tunnel's own requests, which use the native methods above. */
export const PlainRequest = XMLHttpRequest;

export let token = script.dataset.token ?? '';

/** Returns the path and query relative to the root if the request must use the tunnel, or null if the native function can send it. */
export function tunnelledPath(method: string, address: string | URL): string | null {
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

/** YARN's proxy fails if a query contains a parameter without a value, or certain brackets or quotes. It also decodes `%25` twice. */
function passesAsItIs(path: string): boolean {
  return (
    /^(?:\/[\w.~:@,+-]*)+(?:\?(?:[\w.~:@,-]+=(?:[\w.~:@,/+*!'()-]|%20|%2C|%2F|%3A|%40)+(?:&|$))*)?$/i.test(path) && !path.includes('//')
  );
}

let renewing: Promise<void> | null = null;

/**
 * If the response reports an outdated token, gets the new token from the site's root page. Each ApplicationMaster attempt has its own
 * token. Returns whether the token has changed.
 */
export async function renewIfOutdated(status: number, text: string): Promise<boolean> {
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
