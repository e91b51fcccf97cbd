import { createHash } from 'node:crypto';

// Rewrites TensorBoard's pages to work under any path prefix and behind gateways that reject POST.

/**
 * Adds a missing trailing slash to the page's URL: a gateway may serve `/proxy/application_1`, where relative links fail. The URL class
 * prevents a path with two leading slashes from naming another host.
 */
export const SLASH_SCRIPT =
  "if(!location.pathname.endsWith('/')){const to=new URL(location.href);to.pathname+='/';location.replace(to.href)}";
export const SLASH_SOURCE = sourceOf(SLASH_SCRIPT);

/** Returns the hash source that allows an inline script or style in a content security policy. */
export function sourceOf(inline: string): string {
  return `'sha256-${createHash('sha256').update(inline).digest('base64')}'`;
}

/** Returns the relative path from a page to the site's root: '' for `/`, and one `../` for each folder level. */
export function pathToRoot(path: string): string {
  return '../'.repeat((path.split('?', 1)[0]?.split('/').length ?? 2) - 2);
}

/** Inserts `inserted` at the beginning of the page's head, and makes root-relative URLs relative to the page. */
export function withInHead(html: string, inserted: string, root: string): string {
  const relative = withRelativeUrls(html, root);
  const head = /<head(?:\s[^>]*)?>/i.exec(relative) ?? /<html(?:\s[^>]*)?>/i.exec(relative) ?? /<!doctype[^>]*>/i.exec(relative);
  const at = head === null ? 0 : head.index + head[0].length;
  return relative.slice(0, at) + inserted + relative.slice(at);
}

/** Replaces root-relative URLs such as `url(/font-roboto/x.woff2)`, which would ignore the site's path prefix. */
export function withRelativeUrls(css: string, root: string): string {
  return css.replace(/url\((\s*["']?)\/(?!\/)/gi, (_, before: string) => `url(${before}${root === '' ? './' : root}`);
}

/**
 * Extends the page's content security policies: allows `scripts`, and allows only this site to frame the page. TensorBoard allows framing
 * by all sites, and its policy would override the gateway's policy.
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
    // If a directive occurs more than once, browsers use the first occurrence.
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
