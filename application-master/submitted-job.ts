import { createHash, timingSafeEqual } from 'node:crypto';
import type { Secret } from '../platform/secret.ts';

/**
 * Returns false if job.json was modified after the submission; users can write the file.
 * @param digest from the credentials. YARN stores them at submission and passes them to every attempt.
 */
export function isSubmitted(job: Buffer, digest: Secret): boolean {
  const found = createHash('sha256').update(job).digest();
  const submitted = digest.reveal();
  return found.length === submitted.length && timingSafeEqual(found, submitted);
}
