import { crc32 } from 'node:zlib';
import { TonyError } from '../conf/errors.ts';
import type { Ring } from './ring.ts';

/** What is compared of a tf.Variable. */
export interface Comparable {
  readonly name: string;
  readonly dtype: string;
  dataSync(): unknown;
}

/**
 * Ranks that step together hold the same bits. Four bytes a variable go around, whatever its size; every rank comes to the same verdict.
 *
 * @param when for the message: "after 200 steps".
 * @throws TonyError RANKS_DIFFER naming the first variable that differs, and the ranks.
 */
export async function verifyEqual(ring: Ring, variables: readonly Comparable[], when: string): Promise<void> {
  const { rank, worldSize } = ring;
  if (worldSize === 1 || variables.length === 0) {
    return;
  }
  // Every rank fills its own row, in halves that float32 holds exactly; the sum has all rows.
  const width = variables.length * 2;
  const rows = new Float32Array(width * worldSize);
  for (const [index, variable] of variables.entries()) {
    const hash = crc32(bytesOf(variable));
    rows[rank * width + index * 2] = hash >>> 16;
    rows[rank * width + index * 2 + 1] = hash & 0xffff;
  }
  await ring.allReduce(rows);
  const hashOf = (peer: number, index: number) => {
    const at = peer * width + index * 2;
    return (rows[at] as number) * 65_536 + (rows[at + 1] as number);
  };
  for (const [index, { name }] of variables.entries()) {
    const hashes = Array.from({ length: worldSize }, (_, peer) => hashOf(peer, index));
    if (new Set(hashes).size > 1) {
      throw new TonyError('RANKS_DIFFER', `${when} the ranks hold different values of the variable ${name}: ${describeGroups(hashes)}`);
    }
  }
}

/** "ranks 0, 1 and 3 agree, rank 2 differs from them"; with no majority just who holds what. */
function describeGroups(hashes: readonly number[]): string {
  const groups = new Map<number, number[]>();
  hashes.forEach((hash, rank) => {
    groups.set(hash, [...(groups.get(hash) ?? []), rank]);
  });
  const bySize = [...groups.values()].sort((one, other) => other.length - one.length);
  const [largest = [], second = []] = bySize;
  if (largest.length > second.length && largest.length > 1) {
    const others = bySize.slice(1).flat();
    return `${inWords(others)} ${others.length === 1 ? 'differs' : 'differ'} from ${inWords(largest)}`;
  }
  return bySize.map(inWords).join(' against ');
}

function inWords(ranks: readonly number[]): string {
  const sorted = [...ranks].sort((one, other) => one - other);
  const last = sorted.at(-1);
  return sorted.length === 1 ? `rank ${last}` : `ranks ${sorted.slice(0, -1).join(', ')} and ${last}`;
}

function bytesOf(variable: Comparable): Uint8Array {
  const values = variable.dataSync() as Float32Array | Int32Array | Uint8Array;
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}
