import { createHash } from 'node:crypto';
import { sameSecret } from '../platform/same-secret.ts';
import type { Secret } from '../platform/secret.ts';

/**
 * Returns false if job.json was modified after it was submitted.
 * @param digest digest from the credentials. Users cannot change the digest, because YARN stores the credentials when the job is submitted.
 */
export function isSubmitted(job: Buffer, digest: Secret): boolean {
  return sameSecret(createHash('sha256').update(job).digest(), digest.reveal());
}
