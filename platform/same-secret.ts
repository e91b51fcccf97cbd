import { timingSafeEqual } from 'node:crypto';

/**
 * Compares two secrets, or two values that are derived from secrets. The duration of the comparison depends only on the lengths of the
 * values.
 */
export function sameSecret(a: string | Uint8Array, b: string | Uint8Array): boolean {
  const [left, right] = [Buffer.from(a as Uint8Array), Buffer.from(b as Uint8Array)];
  return left.length === right.length && timingSafeEqual(left, right);
}
