import { type Server, ServerCredentials } from '@grpc/grpc-js';
import type { Secret } from '../conf/secret.ts';
import { grpcAddress } from '../protos/pinned-channel.ts';

/** The job's one certificate is its own authority. */
class PinnedCredentials extends ServerCredentials {
  constructor({ certificate, privateKey, clients }: PinnedServerOptions) {
    const pem = Buffer.from(certificate.reveal());
    const isProof = clients === 'certificate';
    super(
      { requestCert: isProof, rejectUnauthorized: isProof },
      { ...(isProof && { ca: pem }), cert: pem, key: Buffer.from(privateKey.reveal()), minVersion: 'TLSv1.3' },
    );
  }

  override _equals(other: ServerCredentials): boolean {
    return this === other;
  }
}

export interface PinnedServerOptions {
  /** PEM. */
  readonly certificate: Secret;
  readonly privateKey: Secret;
  /**
   * `certificate`: nobody without the job's key gets past the handshake. `token`: they know the job's certificate by heart, and prove
   * themselves by what they say.
   */
  readonly clients: 'certificate' | 'token';
}

/** Listens on the address, and answers the port. */
export function listenPinned(server: Server, address: string, options: PinnedServerOptions): Promise<number> {
  return new Promise((resolve, reject) => {
    server.bindAsync(grpcAddress({ host: address, port: 0 }), new PinnedCredentials(options), (error, port) => {
      if (error) reject(error);
      else resolve(port);
    });
  });
}
