import { X509Certificate } from 'node:crypto';
import type { PeerCertificate } from 'node:tls';

/** DNS name in every job's certificate. It does not depend on the host on which the ApplicationMaster runs. */
export const CERTIFICATE_NAME = 'tony-ts';

/**
 * Returns a `checkServerIdentity` function for node:tls that accepts only a server with this certificate.
 * @param certificate in PEM format
 */
export function pinnedIdentity(certificate: string | Buffer): (host: string, peer: PeerCertificate) => Error | undefined {
  const { fingerprint256 } = new X509Certificate(certificate);
  return (_, peer) =>
    peer.fingerprint256 === fingerprint256 ? undefined : new Error("the ApplicationMaster's certificate is not the job's");
}
