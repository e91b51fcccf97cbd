/**
 * Reads a stream of a Spark program in a custom loop. `loop.state` is the list of the records that all ranks have seen, as pairs of an epoch
 * and a record, which is in each checkpoint. Rank 1 kills itself in the first generation after the step `$DEATH`. At the end, rank 0 writes
 * the list to `$OUT/seen`.
 */
import { writeFileSync } from 'node:fs';
import { data, join } from 'tony-ts/training';

const { OUT, DEATH } = process.env;
const cluster = await join({ timeouts: { joinMs: 60_000, graceMs: 60_000 } });
const { tf, generation, share } = cluster;
const { index: rank, count: worldSize } = share;
const seen = tf.variable(tf.scalar(0));
const rows = data.fromDataFrame<{ id: number }>('train').batch(8);
const loop = await cluster.loop({ data: rows, variables: { seen }, state: { seen: [] as number[][] } });
for await (const { step, epoch, batch } of loop) {
  // Each rank has its own place in the sum, for at most 8 records.
  const own = new Float32Array(8 * worldSize);
  for (const [place, id] of [...(batch?.id.dataSync() ?? [])].entries()) {
    own[8 * rank + place] = id + 1;
  }
  await cluster.allReduce(own);
  loop.state.seen.push(...[...own].filter((each) => each > 0).map((each) => [epoch, each - 1]));
  if (generation === 1 && rank === 1 && step === Number(DEATH)) {
    process.kill(process.pid, 'SIGKILL');
  }
}
if (rank === 0) {
  writeFileSync(`${OUT}/seen`, JSON.stringify(loop.state.seen));
}
await cluster.close();
