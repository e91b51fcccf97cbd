// The page's site, the browser's own request functions, and the token of the tunnel.

export const script = document.currentScript as HTMLScriptElement;
/** The site's root, including any prefix that gateways add. */
export const ROOT = new URL('../../', script.src);
export const TUNNEL = new URL('tony/tunnel', ROOT).href;
/** The server's error text, see web/tunnel.ts. */
export const OUTDATED = 'This page is of an earlier server';

export const nativeFetch = window.fetch.bind(window);
export const native = {
  open: XMLHttpRequest.prototype.open,
  send: XMLHttpRequest.prototype.send,
  abort: XMLHttpRequest.prototype.abort,
  setRequestHeader: XMLHttpRequest.prototype.setRequestHeader,
};
/** The original class, not patched below, so its requests never use the tunnel. */
export const PlainRequest = XMLHttpRequest;

export let token = script.dataset.token ?? '';

/** Returns the path and query relative to the root if the request needs the tunnel; null if it is sent unchanged. */
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

/** YARN's proxy fails on parameters without a value and on some with brackets or quotes, and unescapes `%25` once too often. */
function passesAsItIs(path: string): boolean {
  return (
    /^(?:\/[\w.~:@,+-]*)+(?:\?(?:[\w.~:@,-]+=(?:[\w.~:@,/+*!'()-]|%20|%2C|%2F|%3A|%40)+(?:&|$))*)?$/i.test(path) && !path.includes('//')
  );
}

let renewing: Promise<void> | null = null;

/** Each attempt of the ApplicationMaster has its own token. If the token is outdated, reads the new one from the site's root page. */
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
