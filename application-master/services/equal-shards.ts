import type { PartitionPiece } from '../../contract/partitions/partition-feed.ts';

/**
 * Divides the records of all partitions evenly among the ranks. Each rank gets a contiguous range of the records.
 * @param counts number of records in each partition
 * @param remainder `pad` rounds the number of records per rank up, and gives some records to two ranks. `cut` rounds it down, and leaves out
 *   the last records
 * @returns the pieces of each rank
 */
export function equalShards(counts: readonly number[], worldSize: number, remainder: 'pad' | 'cut'): PartitionPiece[][] {
  const total = counts.reduce((sum, each) => sum + each, 0);
  const share = remainder === 'pad' ? Math.ceil(total / worldSize) : Math.floor(total / worldSize);
  const shards = Array.from({ length: worldSize }, (): PartitionPiece[] => []);
  let partition = 0;
  let from = 0;
  for (const shard of shards) {
    let missing = share;
    while (missing > 0) {
      const size = counts[partition] as number;
      const to = Math.min(size, from + missing);
      if (to > from) {
        shard.push({ partition, from, to });
      }
      missing -= to - from;
      from = to;
      if (from === size) {
        // After the last partition, `pad` continues with the first.
        partition = (partition + 1) % counts.length;
        from = 0;
      }
    }
  }
  return shards;
}
