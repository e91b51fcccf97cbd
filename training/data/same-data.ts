import { crc32 } from 'node:zlib';
import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../platform/errors.ts';
import type { Peers } from '../ring/peers.ts';
import { columnsIn, rowsOf, type TrainingData } from './data.ts';

/** The number of rows that the ranks compare in each column. The first and last rows are always included. */
const COMPARED_ROWS = 64;

interface Fingerprint {
  readonly column: string;
  readonly shape: readonly number[];
  readonly hash: number;
}

/**
 * Compares the ranks' training data before the first step. Each rank selects its share by index, so all ranks must have the same examples.
 * @returns a message about the first difference from rank 0, or null if the compared rows are equal.
 * @throws TonyError DATA_INVALID on every rank if the shapes differ. The ranks would then take different numbers of steps.
 */
export async function differingData(tf: typeof tfjs, peers: Peers, data: TrainingData): Promise<string | null> {
  if (peers.worldSize === 1 || !peers.stepsTogether) {
    return null;
  }
  const own = fingerprintsOf(tf, data);
  const all = (await peers.gather(Buffer.from(JSON.stringify(own)))).map(
    (bytes) => JSON.parse(Buffer.from(bytes).toString('utf8')) as Fingerprint[],
  );
  const [first = []] = all;
  for (const [rank, others] of all.entries()) {
    for (const [index, { column, shape, hash }] of others.entries()) {
      const there = first[index];
      if (there?.shape.join() !== shape.join()) {
        throw new TonyError('DATA_INVALID', `${column} is [${there?.shape}] on rank 0 and [${shape}] on rank ${rank}`, {
          hint: 'Pass the same examples on every rank; fit divides them. To read different data on each rank, use a dataset.',
        });
      }
      if (there.hash !== hash) {
        return `${column} differs between ranks 0 and ${rank}. Pass the same examples on every rank; fit divides them. Random data needs the same seed on every rank`;
      }
    }
  }
  return null;
}

function fingerprintsOf(tf: typeof tfjs, data: TrainingData): Fingerprint[] {
  const columns = [
    ...columnsIn(data.x).map((values, index) => ({ column: `x[${index}]`, values })),
    ...columnsIn(data.y).map((values, index) => ({ column: `y[${index}]`, values })),
    ...(data.sampleWeight === undefined ? [] : [{ column: 'sampleWeight', values: data.sampleWeight }]),
  ];
  return columns.map(({ column, values }) => {
    const count = values.shape[0] ?? 0;
    const compared = Math.min(count, COMPARED_ROWS);
    const rows = Uint32Array.from({ length: compared }, (_, index) => Math.round((index * (count - 1)) / Math.max(1, compared - 1)));
    const numbers = tf.tidy(() => rowsOf(tf, values, rows).dataSync());
    return { column, shape: values.shape, hash: crc32(Buffer.from(numbers.buffer, numbers.byteOffset, numbers.byteLength)) };
  });
}
