import { messageOf, TonyError } from '../../platform/errors.ts';
import { WritableReader } from '../rpc/writable.ts';

/*
 * The identifier of a delegation token of HDFS (org.apache.hadoop.security.token.delegation.AbstractDelegationTokenIdentifier, Writable):
 *
 *   version     1 byte, 0
 *   owner       Text
 *   renewer     Text
 *   real user   Text; empty unless another user impersonates the owner
 *   issue date  VLong, ms since the epoch
 *   max date    VLong, ms since the epoch; the latest time to which the token can be renewed
 *   sequence number, master key ID: VInt
 */
export interface DelegationIdentifier {
  readonly owner: string;
  readonly renewer: string;
  readonly issuedAt: number;
  readonly endsAt: number;
}

/** @throws TonyError CREDENTIALS_INVALID */
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
