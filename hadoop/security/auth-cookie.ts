/** The cookie that a Hadoop daemon issues to an authenticated client (org.apache.hadoop.security.authentication). */
export interface AuthCookie {
  /** Value for the `Cookie` header. The value is a secret until it expires, so it must not be logged. */
  readonly header: string;
  /** Expiry in ms since the epoch, or null if the cookie does not contain one. */
  readonly expiresAt: number | null;
}

/**
 * Finds the authentication cookie in response headers. Its value is `u=SHORT_NAME&p=PRINCIPAL&t=TYPE&e=MS&s=SIGNATURE`. An empty value
 * means that the server deletes the cookie.
 */
export function findAuthCookie(head: string): AuthCookie | null {
  const [last] = [...head.matchAll(/^set-cookie:[ \t]*hadoop\.auth=("[^"\r\n]*"|[^;\r\n]*)/gim)].reverse();
  const value = last?.[1] ?? '';
  if (value === '' || value === '""') {
    return null;
  }
  const expires = /(?:^"?|&)e=(\d{1,16})(?:&|"|$)/.exec(value)?.[1];
  return { header: `hadoop.auth=${value}`, expiresAt: expires === undefined ? null : Number(expires) };
}
