import { TonyError } from '../../platform/errors.ts';

const UNKNOWN_AUTHORITY: ReadonlySet<string> = new Set([
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'CERT_SIGNATURE_FAILURE',
]);
/** The reasons that OpenSSL reports if a server does not respond with TLS. */
const NOT_TLS: ReadonlySet<string> = new Set(['wrong version number', 'packet length too long', 'http request', 'unknown protocol']);
/** First byte of a TLS alert. A TLS server sends an alert if it receives plain HTTP. */
const TLS_ALERT = 0x15;

/**
 * Explains a TLS error in an HTTPS request, or the failure of a plain HTTP request to an HTTPS server. A retry would fail in the same way.
 * Returns null for other errors, for which a retry may help.
 */
export function tlsFailure(error: unknown, server: URL): TonyError | null {
  const { code = '', cert, rawPacket, message = '' } = causeOf(error);
  const reason = opensslReason(code, message);
  const host = server.host;
  const failed = (message: string, hint: string): TonyError => new TonyError('TLS_FAILED', message, { hint, cause: error });
  if (UNKNOWN_AUTHORITY.has(code)) {
    return failed(
      `The certificate of ${host} is signed by an authority that is not trusted here (${code}).`,
      "Name a truststore with the cluster's authority in the ssl-client.xml of HADOOP_CONF_DIR (ssl.client.truststore.location), or a PEM file as tls.ca in tony-site.yaml.",
    );
  }
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    const names = (cert?.subjectaltname ?? '').replaceAll('DNS:', '').replaceAll('IP Address:', '');
    return failed(
      `The certificate of ${host} is not valid for this host name${names === '' ? '' : `, but for ${names}`}.`,
      'Use a name from the certificate in the Hadoop configuration, or ask the cluster admin for a certificate with this name.',
    );
  }
  if (code === 'CERT_HAS_EXPIRED' || code === 'CERT_NOT_YET_VALID') {
    return failed(
      `The certificate of ${host} or its certificate authority ${code === 'CERT_HAS_EXPIRED' ? 'has expired' : 'is not valid yet'}.`,
      "Check this machine's clock. If the clock is correct, ask the cluster admin to renew the certificate.",
    );
  }
  if (reason !== null && NOT_TLS.has(reason)) {
    return failed(
      `${host} speaks plain HTTP, but the configuration says HTTPS.`,
      'Correct yarn.http.policy, dfs.http.policy or the HTTPS addresses in the Hadoop configuration.',
    );
  }
  if (code.startsWith('HPE_') && rawPacket?.[0] === TLS_ALERT) {
    return speaksTls(server, error);
  }
  if (reason !== null || code.startsWith('ERR_TLS_') || code.startsWith('CERT_')) {
    return failed(`The TLS connection to ${host} failed (${reason ?? code}).`, 'Check the TLS settings of this server in ssl-server.xml.');
  }
  return null;
}

/** Returns the error for a plain HTTP request to an HTTPS server. */
function speaksTls({ host }: URL, cause?: unknown): TonyError {
  return new TonyError('TLS_FAILED', `${host} speaks HTTPS, but the configuration says plain HTTP.`, {
    hint: 'Set yarn.http.policy and dfs.http.policy to HTTPS_ONLY in the Hadoop configuration if all daemons use HTTPS. Otherwise, correct the address of this server.',
    cause,
  });
}

/**
 * Returns OpenSSL's reason for the error, in lower case. Node.js reports it in the error code or, for EPROTO, in the message. Returns null
 * if the error does not come from OpenSSL.
 */
function opensslReason(code: string, message: string): string | null {
  if (code === 'EPROTO') {
    return /:SSL routines:[^:]*:([^:]+)/.exec(message)?.[1]?.toLowerCase() ?? null;
  }
  return code.startsWith('ERR_SSL_') ? code.slice('ERR_SSL_'.length).toLowerCase().replaceAll('_', ' ') : null;
}

interface ConnectionError {
  readonly message?: string;
  readonly code?: string;
  readonly cert?: { readonly subjectaltname?: string };
  readonly rawPacket?: Buffer;
}

/** Returns the original connection error. HTTP libraries wrap it in their own errors. */
function causeOf(error: unknown): ConnectionError {
  for (let each = error; each instanceof Error; each = each.cause) {
    if ((each as { cert?: unknown }).cert !== undefined || each.cause === undefined) {
      return each as ConnectionError;
    }
  }
  return {};
}
