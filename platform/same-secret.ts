import { timingSafeEqual } from 'node:crypto';

/** Compares two secrets, or two values derived from secrets, in time that depends only on their lengths. */
export function sameSecret(a: string | Uint8Array, b: string | Uint8Array): boolean {
  const [left, right] = [Buffer.from(a as Uint8Array), Buffer.from(b as Uint8Array)];
  return left.length === right.length && timingSafeEqual(left, right);
}
