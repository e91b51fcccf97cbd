import { createHmac } from 'node:crypto';
import type { Secret } from '../../platform/secret.ts';

/**
 * Returns the token that producers and sources of a job's feeds must send. The ApplicationMaster and the executors derive it from the key
 * that they share. Every user who may read the job's staging folder can find the token there.
 * @param privateKey key of the job's certificate
 */
export function feedToken(privateKey: Secret): string {
  return createHmac('sha256', privateKey.reveal()).update('feed').digest('hex');
}
