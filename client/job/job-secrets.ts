import { createHash, generateKeyPairSync, randomBytes } from 'node:crypto';
import { CREDENTIALS } from '../../conf/job.ts';
import { Secret } from '../../platform/secret.ts';
import { encodeJobConnections, type JobConnections } from '../../storage/s3/s3-connection.ts';
import { selfSignedCertificate } from './certificate.ts';

const HOUR = 3_600_000;
/** How long (ms) the certificate is valid. Must exceed the run time of any job. */
const VALIDITY = 365 * 24 * HOUR;
/** Maximum time (ms) that a node's clock may be behind the client's clock. */
const CLOCK_SKEW = 24 * HOUR;

/**
 * Creates a job's secrets, including the shared secret, the private key and the certificate with which its processes authenticate each
 * other. The map keys are the names in `CREDENTIALS`. YARN passes the secrets to the ApplicationMaster in the credentials of its container.
 * @param jobFile text of job.json, whose digest the ApplicationMaster checks
 * @param s3 the job's object stores, or null if the job does not contain any s3:// URIs
 */
export function createJobSecrets(now: number, jobFile: string, s3: JobConnections | null = null): ReadonlyMap<string, Secret> {
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
    [CREDENTIALS.jobDigest, new Secret(createHash('sha256').update(jobFile).digest())],
    [CREDENTIALS.certificate, new Secret(Buffer.from(certificate))],
    [CREDENTIALS.privateKey, new Secret(Buffer.from(privateKey.export({ type: 'pkcs8', format: 'pem' })))],
    ...(s3 === null ? [] : [[CREDENTIALS.s3, new Secret(Buffer.from(encodeJobConnections(s3)))] as const]),
  ]);
}
