import { crc32 } from 'node:zlib';
import { TonyError } from '../../../platform/errors.ts';
import type { Ring } from '../../ring/ring.ts';

export interface Comparable {
  readonly name: string;
  readonly dtype: string;
  dataSync(): unknown;
}

/**
 * Returns the hash of each variable on each rank, as `[variable][rank]`. Sends only two numbers per variable, regardless of the variable's
 * size.
 */
async function hashesOf(ring: Ring, variables: readonly Comparable[]): Promise<number[][]> {
  const { rank, worldSize } = ring;
  // Each rank fills only its own row, so the sum over the ranks contains all rows. Each hash is split into 16-bit halves, which float32
  // represents exactly.
  const width = variables.length * 2;
  const rows = new Float32Array(width * worldSize);
  for (const [index, variable] of variables.entries()) {
    const hash = crc32(bytesOf(variable));
    rows[rank * width + index * 2] = hash >>> 16;
    rows[rank * width + index * 2 + 1] = hash & 0xffff;
  }
  await ring.allReduce(rows);
  return variables.map((_, index) =>
    Array.from({ length: worldSize }, (_, peer) => {
      const at = peer * width + index * 2;
      return (rows[at] as number) * 65_536 + (rows[at + 1] as number);
    }),
  );
}

/** Returns the variables whose bits differ between ranks. Every rank gets the same result. */
export async function differingVariables<T extends Comparable>(ring: Ring, variables: readonly T[]): Promise<T[]> {
  if (ring.worldSize === 1 || variables.length === 0) {
    return [];
  }
  const hashes = await hashesOf(ring, variables);
  return variables.filter((_, index) => new Set(hashes[index]).size > 1);
}

/**
 * Verifies that the variables are bit-identical on all ranks. If a variable differs, every rank throws the same error.
 * @param when a phrase for the error message that says when the comparison takes place, such as "after 200 steps".
 * @throws TonyError RANKS_MISMATCH with the first variable that differs, and the ranks.
 */
export async function verifyEqual(ring: Ring, variables: readonly Comparable[], when: string): Promise<void> {
  if (ring.worldSize === 1 || variables.length === 0) {
    return;
  }
  for (const [index, hashes] of (await hashesOf(ring, variables)).entries()) {
    if (new Set(hashes).size > 1) {
      const { name } = variables[index] as Comparable;
      throw new TonyError('RANKS_MISMATCH', `${when} the ranks hold different values of the variable ${name}: ${describeGroups(hashes)}`);
    }
  }
}

/**
 * Describes the groups of ranks with equal hashes, for example "rank 2 differs from ranks 0, 1 and 3", or "rank 0 versus rank 1" if no
 * group is the largest.
 */
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
  return bySize.map(inWords).join(' versus ');
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
