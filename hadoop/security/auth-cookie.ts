/** The cookie by which a Hadoop daemon recognizes a client that has proved its identity (org.apache.hadoop.security.authentication). */
export interface AuthCookie {
  /** For the header `Cookie`. It is as good as a password until it expires: never print it. */
  readonly header: string;
  /** ms since the epoch; null where the server does not say. */
  readonly expiresAt: number | null;
}

/**
 * Finds the cookie in the head of an answer. Its value is `u=SHORT_NAME&p=PRINCIPAL&t=TYPE&e=MS&s=SIGNATURE`; an empty value deletes it.
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
