import { type ErrorCode, TonyError } from '../../platform/errors.ts';

interface Cause {
  readonly pattern: RegExp;
  readonly code: ErrorCode;
  readonly hint?: string;
}

/**
 * Known error messages, each with an error code and a hint. The messages come from MIT Kerberos, or from a daemon whose Java runtime
 * reports a Kerberos error.
 */
const CAUSES: readonly Cause[] = [
  { pattern: /clock skew|ticket not yet valid/i, code: 'KERBEROS_CLOCK_MISMATCH' },
  { pattern: /ticket expired|credentials have expired/i, code: 'KERBEROS_TICKET_EXPIRED' },
  { pattern: /no credentials were supplied|no credentials cache|no kerberos credentials/i, code: 'KERBEROS_TICKET_NOT_FOUND' },
  { pattern: /no rules? applied|nomatchingrule/i, code: 'KERBEROS_REALM_DENIED' },
  {
    pattern: /krbtgt\/\S+ not found/i,
    code: 'KERBEROS_REALM_DENIED',
    hint: "Check the realm that [domain_realm] in krb5.conf assigns to this host, or run kinit with a principal of the cluster's realm: kinit USER@REALM.",
  },
  { pattern: /cannot find kdc for realm|cannot determine realm/i, code: 'KERBEROS_REALM_DENIED' },
  { pattern: /server \S+ not found in kerberos database|server not found/i, code: 'KERBEROS_SERVER_NOT_FOUND' },
  {
    pattern: /cannot contact any kdc/i,
    code: 'KERBEROS_FAILED',
    hint: 'Check that this machine can reach the key distribution center named in krb5.conf (or in the file that KRB5_CONFIG specifies).',
  },
  {
    pattern:
      /preauthentication failed|keytab contains no suitable keys|key table file .* not found|client not found|client '\S+' not found/i,
    code: 'KERBEROS_TICKET_NOT_FOUND',
    hint: 'Check the keytab and its principal: klist -k KEYTAB.',
  },
];

/**
 * Creates the error for a Kerberos failure.
 * @param text the message from a local Kerberos tool or from a daemon
 * @param what the rejected identity, for the error message, e.g. `the identity of this user at rm:8088`
 */
export function kerberosFailure(text: string, what: string): TonyError {
  const found = CAUSES.find(({ pattern }) => pattern.test(text));
  const plain = text.replace(/\s+/g, ' ').trim().slice(0, 400);
  const message = `Kerberos rejected ${what}: ${plain || 'no reason was given'}`;
  const sentence = /[.!?]$/.test(message) ? message : `${message}.`;
  return new TonyError(found?.code ?? 'KERBEROS_FAILED', sentence, found?.hint === undefined ? {} : { hint: found.hint });
}
