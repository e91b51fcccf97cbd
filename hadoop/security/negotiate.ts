import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TonyError } from '../../platform/errors.ts';
import { reasonOnPage } from '../http/error-text.ts';
import type { ServerTrust } from '../tls/server-trust.ts';
import { kerberosFailure } from './kerberos-failure.ts';
import { runSystemProgram } from './run-system-program.ts';

/** The cookie that a Hadoop daemon issues to an authenticated client (org.apache.hadoop.security.authentication). */
interface AuthCookie {
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

const LIMIT_SECONDS = 20;
const CONNECT_SECONDS = 5;
/** curl's exit code for an option that this build does not support. */
const UNSUPPORTED_OPTION = 2;
/** curl's exit codes for an unknown host, a refused connection, a broken connection and a timeout. */
const CONNECTION_FAILURES: ReadonlySet<number> = new Set([6, 7, 28, 52, 56]);

const CERTIFICATE_TIME_HINT = "Check this machine's clock. If the clock is correct, ask the cluster admin to renew the certificate.";
/** curl's exit codes for a failed TLS handshake and for an untrusted certificate. */
const TLS_FAILURES: ReadonlySet<number> = new Set([35, 60]);

/**
 * Authenticates the user to a web server with SPNEGO and returns the server's cookie. Runs the system's curl, which uses the same Kerberos
 * library, configuration and ticket cache as `kinit`. The ticket does not appear in curl's arguments. Because a cookie is valid for hours,
 * one run per server is enough.
 * @returns `no answer` if the server does not respond. The caller's next request reports the cause.
 * @throws TonyError KERBEROS_*, TLS_FAILED
 */
export async function negotiate(
  url: URL,
  environment: NodeJS.ProcessEnv,
  trust: ServerTrust,
): Promise<AuthCookie | 'no login required' | 'no answer'> {
  const bundle = url.protocol === 'https:' ? trust.bundle() : null;
  if (bundle === null) {
    return runCurl(url, environment, []);
  }
  // curl accepts certificate authorities only from files.
  const folder = await mkdtemp(join(tmpdir(), 'tony-ts-authorities-'));
  try {
    const file = join(folder, 'ca.pem');
    await writeFile(file, bundle, { mode: 0o600 });
    return await runCurl(url, environment, ['--cacert', file]);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function runCurl(
  url: URL,
  environment: NodeJS.ProcessEnv,
  authority: readonly string[],
): Promise<AuthCookie | 'no login required' | 'no answer'> {
  // -q makes curl ignore the user's .curlrc, and must be the first argument. Cluster hosts are reachable without a proxy.
  const args = [
    '-q',
    '--silent',
    '--show-error',
    '--verbose',
    '--include',
    '--noproxy',
    '*',
    '--connect-timeout',
    String(CONNECT_SECONDS),
    '--max-time',
    String(LIMIT_SECONDS),
  ];
  const { exitCode, stdout, stderr } = await runSystemProgram(
    'curl',
    [...args, ...authority, '--negotiate', '--user', ':', url.href],
    environment,
  );
  if (exitCode === UNSUPPORTED_OPTION) {
    throw new TonyError('KERBEROS_TOOL_NOT_FOUND', 'curl on this machine was built without SPNEGO support (--negotiate).');
  }
  const { head, status, body } = lastAnswer(stdout);
  const complaint = /^curl: \(\d+\) (.*)$/m.exec(stderr)?.[1];
  if (status === 0 && exitCode !== null && exitCode !== 0 && !CONNECTION_FAILURES.has(exitCode)) {
    const code = TLS_FAILURES.has(exitCode) ? 'TLS_FAILED' : 'KERBEROS_FAILED';
    const isOfTime = code === 'TLS_FAILED' && /expired|not yet valid/.test(complaint ?? '');
    throw new TonyError(
      code,
      `curl cannot sign in at ${url.host}: ${complaint ?? `exit ${exitCode}`}.`,
      isOfTime ? { hint: CERTIFICATE_TIME_HINT } : {},
    );
  }
  const cookie = findAuthCookie(head);
  if (cookie !== null) {
    return cookie;
  }
  const reason = /^\* gss_init_sec_context\(\) failed: (.*)$/m.exec(stderr)?.[1];
  // If no rule in hadoop.security.auth_to_local matches the principal, a daemon returns HTTP 500.
  if (status === 401 || status === 403 || body.includes('NoMatchingRule') || reason !== undefined) {
    throw kerberosFailure(reason ?? reasonOnPage(body), `the identity of this user at ${url.host}`);
  }
  return status === 0 ? 'no answer' : 'no login required';
}

function lastAnswer(text: string): { head: string; status: number; body: string } {
  let head = '';
  let rest = text;
  while (/^HTTP\/\d/.test(rest)) {
    const end = rest.indexOf('\r\n\r\n');
    head = end < 0 ? rest : rest.slice(0, end);
    rest = end < 0 ? '' : rest.slice(end + 4);
  }
  return { head, status: Number(/^HTTP\/\S+ (\d{3})/.exec(head)?.[1] ?? 0), body: rest };
}
