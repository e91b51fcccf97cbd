import * as tf from '@tensorflow/tfjs';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import type { Report } from '../../contract/process/task-context.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { CheckpointOrder } from '../checkpoint/checkpoint-order.ts';
import { joinRing } from '../testing/join-ring.ts';
import { Cluster } from './cluster.ts';

beforeAll(async () => {
  await tf.setBackend('cpu');
});

interface Pair {
  readonly clusters: readonly [Cluster, Cluster];
  readonly reports: readonly [Report[], Report[]];
  readonly notices: readonly [string[], string[]];
}

async function pair(): Promise<Pair> {
  const notices: [string[], string[]] = [[], []];
  const reports: [Report[], Report[]] = [[], []];
  const clusters = (await joinRing(2)).map((ring, index) => {
    return new Cluster({
      ...{ tf, backend: 'cpu', ring, wire: 'float32', servers: null, ranked: true, role: 'worker', index, instances: 2 },
      ...{ jobId: 'application_1_0001', jobName: 'test', generation: 1, data: {}, storage: new FileStorage() },
      ...{ checkpoint: null, summaryDir: null, outputDir: null, checkpointOrder: new CheckpointOrder(null), memoryMb: null },
      report: (report) => {
        reports[index]?.push(report);
        if (report.type === 'notice') {
          notices[index]?.push(report.message);
        }
      },
    });
  }) as [Cluster, Cluster];
  onTestFinished(() => {
    for (const cluster of clusters) {
      void cluster.close();
    }
    tf.disposeVariables();
  });
  return { clusters, reports, notices };
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

test('report sends the values with their step, and rejects values that are not numbers and a missing step', async () => {
  const { clusters, reports } = await pair();
  const [cluster] = clusters;
  cluster.report({ 'val/loss': 0.5 }, { step: 7 });
  cluster.notice('hello', { about: 'greeting' });
  expect(reports[0]).toEqual([
    { type: 'progress', step: 7, metrics: { 'val/loss': 0.5 } },
    { type: 'notice', message: 'hello', about: 'greeting' },
  ]);
  const report = cluster.report.bind(cluster) as (...words: unknown[]) => void;
  for (const words of [
    [7, { loss: 0.5 }],
    [{ loss: '0.5' }, { step: 7 }],
    [{ loss: 0.5 }],
    [{ loss: 0.5 }, { step: 0.5 }],
    [{ loss: 0.5 }, 7],
  ]) {
    expect(() => report(...words), JSON.stringify(words)).toThrow(expect.objectContaining({ code: 'USAGE' }));
  }
});
