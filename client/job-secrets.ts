import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { CREDENTIALS } from '../conf/job.ts';
import { Secret } from '../conf/secret.ts';
import { selfSignedCertificate } from './certificate.ts';

const HOUR = 3_600_000;
/** Both ends pin the certificate and it dies with its job: the end of its validity must only not come before the job's. */
const VALIDITY = 365 * 24 * HOUR;
/** Nodes whose clock is behind the client's have to accept it too. */
const CLOCK_SKEW = 24 * HOUR;

/**
 * What a job's processes know each other by: a secret, and one key pair with its certificate. By the names of CREDENTIALS; they travel in
 * the credentials of the ApplicationMaster's container only.
 */
export function createJobSecrets(now: number): ReadonlyMap<string, Secret> {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const certificate = selfSignedCertificate({
    name: 'tony-ts',
    serial: randomBytes(16),
    notBefore: new Date(now - CLOCK_SKEW),
    notAfter: new Date(now + VALIDITY),
    privateKey,
  });
  return new Map([
    [CREDENTIALS.jobSecret, new Secret(randomBytes(32))],
    [CREDENTIALS.certificate, new Secret(Buffer.from(certificate))],
    [CREDENTIALS.privateKey, new Secret(Buffer.from(privateKey.export({ type: 'pkcs8', format: 'pem' })))],
  ]);
}
