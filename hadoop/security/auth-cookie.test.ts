import { expect, test } from 'vitest';
import { findAuthCookie } from './negotiate.ts';

/** A cookie from Hadoop 3.4.3 with a replaced signature. */
const VALUE = '"u=alice&p=alice@EXAMPLE.TEST&t=kerberos&e=1795529211369&s=c2lnbmF0dXJlLCByZXBsYWNlZA=="';

test('finds the cookie and its expiry in the head of a response', () => {
  const head = `HTTP/1.1 200 OK\r\nWWW-Authenticate: Negotiate oYGF\r\nSet-Cookie: hadoop.auth=${VALUE}; Path=/; HttpOnly\r\n\r\n`;
  expect(findAuthCookie(head)).toEqual({ header: `hadoop.auth=${VALUE}`, expiresAt: 1_795_529_211_369 });
});

test('accepts a cookie without quotes or expiry, and returns the last of several cookies', () => {
  expect(findAuthCookie('set-cookie: hadoop.auth=u=a&s=b; Path=/')).toEqual({ header: 'hadoop.auth=u=a&s=b', expiresAt: null });
  expect(findAuthCookie('Set-Cookie: hadoop.auth=old\r\nSet-Cookie: hadoop.auth=new; Path=/\r\n')?.header).toBe('hadoop.auth=new');
});

test.each([
  'HTTP/1.1 401 Authentication required\r\nSet-Cookie: hadoop.auth=; Path=/; HttpOnly',
  'Set-Cookie: hadoop.auth=""',
  'Set-Cookie: other=1',
  '',
])('no cookie: %j', (head) => {
  expect(findAuthCookie(head)).toBeNull();
});
