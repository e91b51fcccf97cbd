import { expect, test } from 'vitest';
import { kerberosFailure } from './kerberos-failure.ts';

/** Messages from MIT Kerberos 1.20 (curl and kinit), and from Hadoop daemons with Java's Kerberos. */
test.each([
  [
    'No credentials were supplied, or the credentials were unavailable or inaccessible. SPNEGO cannot find mechanisms to negotiate. ',
    'KERBEROS_TICKET_NOT_FOUND',
  ],
  ['Ticket expired', 'KERBEROS_TICKET_EXPIRED'],
  ['GSSException: Failure unspecified at GSS-API level (Mechanism level: Clock skew too great (37))', 'KERBEROS_CLOCK_MISMATCH'],
  ['kinit: Clock skew too great while getting initial credentials', 'KERBEROS_CLOCK_MISMATCH'],
  ['Ticket not yet valid', 'KERBEROS_CLOCK_MISMATCH'],
  ['Server HTTP/127.0.0.1@EXAMPLE.TEST not found in Kerberos database. ', 'KERBEROS_SERVER_NOT_FOUND'],
  ['Server krbtgt/OTHER.REALM@EXAMPLE.TEST not found in Kerberos database', 'KERBEROS_REALM_DENIED'],
  ["kinit: Cannot find KDC for realm 'NOWHERE.TEST' while getting initial credentials", 'KERBEROS_REALM_DENIED'],
  ['No rules applied to alice@OTHER.TEST', 'KERBEROS_REALM_DENIED'],
  ["kinit: Cannot contact any KDC for realm 'EXAMPLE.TEST' while getting initial credentials", 'KERBEROS_FAILED'],
  ['kinit: Keytab contains no suitable keys for carol@EXAMPLE.TEST while getting initial credentials', 'KERBEROS_TICKET_NOT_FOUND'],
  ['something else', 'KERBEROS_FAILED'],
])('%s', (text, code) => {
  const error = kerberosFailure(text, 'the identity of this user at rm:8088');
  expect(error.code).toBe(code);
  expect(error.message).toMatch(/^Kerberos rejected the identity of this user at rm:8088: .*[.!?]$/);
  expect(error.hint).not.toBe('');
});
