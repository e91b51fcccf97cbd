import { createHash } from 'node:crypto';

// Changes TensorBoard's own pages so that they work behind any path and behind gateways that refuse POST.

/**
 * A gateway may serve `/proxy/application_1` without its trailing slash, which breaks every relative link. Uses the URL class, because a
 * path that begins with two slashes must not become another host.
 */
export const SLASH_SCRIPT =
  "if(!location.pathname.endsWith('/')){const to=new URL(location.href);to.pathname+='/';location.replace(to.href)}";
export const SLASH_SOURCE = sourceOf(SLASH_SCRIPT);

/** The hash source by which a policy allows an inline script or style. */
export function sourceOf(inline: string): string {
  return `'sha256-${createHash('sha256').update(inline).digest('base64')}'`;
}

/** The relative path from a page to the site's root: '' for `/`, `../` for each folder below. */
export function wayToRoot(path: string): string {
  return '../'.repeat((path.split('?', 1)[0]?.split('/').length ?? 2) - 2);
}

/** Inserts `inserted` at the beginning of the page's head and makes links from the root relative. */
export function withInHead(html: string, inserted: string, root: string): string {
  const relative = withRelativeUrls(html, root);
  const head = /<head(?:\s[^>]*)?>/i.exec(relative) ?? /<html(?:\s[^>]*)?>/i.exec(relative) ?? /<!doctype[^>]*>/i.exec(relative);
  const at = head === null ? 0 : head.index + head[0].length;
  return relative.slice(0, at) + inserted + relative.slice(at);
}

/** Makes URLs relative: `url(/font-roboto/x.woff2)` would lead out of the site. */
export function withRelativeUrls(css: string, root: string): string {
  return css.replace(/url\((\s*["']?)\/(?!\/)/gi, (_, before: string) => `url(${before}${root === '' ? './' : root}`);
}

/**
 * The page's own policies, amended to allow `scripts` and framing by this site alone. TensorBoard allows framing by every site, which would
 * override the gateway's policy.
 */
export function withScripts(policies: string | undefined, scripts: readonly string[]): string {
  const own = (policies ?? '').split(',').filter((policy) => policy.trim() !== '');
  if (own.length === 0) {
    return "frame-ancestors 'self'";
  }
  return own.map((policy) => amended(policy, scripts)).join(', ');
}

function amended(policy: string, scripts: readonly string[]): string {
  const directives = new Map<string, string[]>();
  for (const each of policy.split(';')) {
    const [name, ...sources] = each.trim().split(/\s+/);
    // The first directive of a name applies.
    if (name && !directives.has(name.toLowerCase())) {
      directives.set(name.toLowerCase(), sources);
    }
  }
  const allow = (name: string, added: readonly string[]): void => {
    const present = directives.get(name) ?? directives.get('default-src');
    if (present === undefined) {
      return;
    }
    const kept = present.filter((source) => source !== "'none'");
    directives.set(name, [...kept, ...added.filter((source) => !kept.includes(source))]);
  };
  allow('script-src', ["'self'", ...scripts]);
  allow('connect-src', ["'self'"]);
  directives.set('frame-ancestors', ["'self'"]);
  return [...directives].map(([name, sources]) => [name, ...sources].join(' ')).join('; ');
}
