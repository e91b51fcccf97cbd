import { messageOf, TonyError } from '../../platform/errors.ts';
import { WritableReader } from '../rpc/writable.ts';

/*
 * Identifier of an HDFS delegation token, a Writable (org.apache.hadoop.security.token.delegation.AbstractDelegationTokenIdentifier):
 *
 *   version     1 byte, 0
 *   owner       Text
 *   renewer     Text
 *   real user   Text; empty unless another user impersonates the owner
 *   issue date  VLong, ms since the epoch
 *   max date    VLong, ms since the epoch; the token cannot be renewed beyond this date
 *   sequence number, master key ID: VInt
 */
export interface DelegationIdentifier {
  readonly owner: string;
  readonly renewer: string;
  readonly issuedAt: number;
  readonly endsAt: number;
}

/**
 * Decodes a delegation token's identifier.
 * @throws TonyError CREDENTIALS_INVALID
 */
export function decodeDelegationIdentifier(bytes: Uint8Array): DelegationIdentifier {
  try {
    if (bytes[0] !== 0) {
      throw new RangeError(`unknown version ${bytes[0] ?? '(none)'}`);
    }
    const reader = new WritableReader(bytes.subarray(1));
    const [owner, renewer] = [reader.text(), reader.text()];
    reader.text();
    return { owner, renewer, issuedAt: reader.vLong(), endsAt: reader.vLong() };
  } catch (error) {
    throw new TonyError('CREDENTIALS_INVALID', `A delegation token has an unknown format: ${messageOf(error)}.`, { cause: error });
  }
}
