import * as tf from '@tensorflow/tfjs';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { FileStorage } from '../../storage/file-storage.ts';
import { CheckpointOrder } from '../checkpoint/checkpoint-order.ts';
import { joinRing } from '../testing/join-ring.ts';
import { Cluster } from './cluster.ts';

beforeAll(async () => {
  await tf.setBackend('cpu');
});

async function pair(): Promise<{ readonly clusters: readonly [Cluster, Cluster]; readonly notices: readonly [string[], string[]] }> {
  const notices: [string[], string[]] = [[], []];
  const clusters = (await joinRing(2)).map((ring, index) => {
    return new Cluster({
      ...{ tf, backend: 'cpu', ring, wire: 'float32', servers: null, ranked: true, role: 'worker', index, roleSize: 2 },
      ...{ applicationId: 'application_1_0001', jobName: 'test', generation: 1, data: {}, storage: new FileStorage() },
      ...{ checkpoint: null, summaryDir: null, outputDir: null, checkpointOrder: new CheckpointOrder(null), memoryMb: null },
      report: (report) => {
        if (report.type === 'notice') {
          notices[index]?.push(report.message);
        }
      },
    });
  }) as [Cluster, Cluster];
  onTestFinished(() => {
    for (const cluster of clusters) {
      cluster.close();
    }
    tf.disposeVariables();
  });
  return { clusters, notices };
}

test('rank 0 reports the first NaN loss of cluster.step, exactly once', async () => {
  const { clusters, notices } = await pair();
  await Promise.all(
    clusters.map(async (cluster) => {
      const [variable, optimizer] = [tf.variable(tf.scalar(1)), tf.train.sgd(0.1)];
      for (let step = 0; step < 3; step++) {
        await cluster.step(() => tf.mul(variable, step === 0 ? 1 : Number.NaN) as tf.Scalar, optimizer, { variables: variable });
      }
    }),
  );
  expect(notices[0]).toEqual([expect.stringContaining('a loss of cluster.step is NaN')]);
  expect(notices[1]).toEqual([]);
});

test('collectives accept arrays of numbers and the weights of a model', async () => {
  const { clusters } = await pair();
  const results = await Promise.all(
    clusters.map(async (cluster) => {
      const model = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [2] })] });
      await cluster.broadcast(model.weights);
      const numbers = [1, 2 + cluster.share.index];
      await cluster.allReduce(numbers);
      return { numbers, weights: model.getWeights().map((weight) => [...weight.dataSync()]) };
    }),
  );
  expect(results[0]?.numbers).toEqual([2, 5]);
  expect(results[1]).toEqual(results[0]);
});
