import { createHash } from 'node:crypto';
import { sameSecret } from '../platform/same-secret.ts';
import type { Secret } from '../platform/secret.ts';

/**
 * Returns false if job.json was modified after the submission; users can write the file.
 * @param digest from the credentials. YARN stores them at submission and passes them to every attempt.
 */
export function isSubmitted(job: Buffer, digest: Secret): boolean {
  return sameSecret(createHash('sha256').update(job).digest(), digest.reveal());
}
