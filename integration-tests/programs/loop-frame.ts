/**
 * Reads the rows of a DataFrame in a custom loop, and writes those of each rank to `$OUT/rows-RANK`, one JSON line per row. With `SINGLE`,
 * expects single records instead.
 */
import { appendFileSync } from 'node:fs';
import { data, join } from 'tony-ts/training';

const cluster = await join();
if (process.env.SINGLE) {
  await data.fromFeed('train').toArray();
}
interface Row {
  readonly id: number;
  readonly name: string;
  readonly yes: boolean;
  readonly raw: Buffer;
  readonly words: readonly string[];
}

const rows = data.fromDataFrame<Row>('train').map(({ id, name, yes, raw, words }) => {
  return { id, text: `${name} ${yes} ${raw.toString()} ${words.join('+')}` };
});
const seen = cluster.tf.variable(cluster.tf.scalar(0));
const loop = await cluster.loop({ data: rows.batch(10), variables: { seen } });
for await (const { epoch, batch } of loop) {
  const [ids, texts] = batch === null ? [[], []] : [[...batch.id.dataSync()], [...batch.text.dataSync()]];
  const lines = ids.map((id, row) => `${JSON.stringify({ epoch, id, text: String(texts[row]) })}\n`);
  appendFileSync(`${process.env.OUT}/rows-${cluster.rank}`, lines.join(''));
}
await cluster.close();
