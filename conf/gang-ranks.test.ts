import { expect, test } from 'vitest';
import { gangRanks } from './gang-ranks.ts';
import { parseJob } from './resolve/load-job.ts';

const ranks = (text: string) =>
  Object.fromEntries(gangRanks(parseJob(`name: x\ncommand: run\n${text}\n`, { file: 'job.yaml', folder: '/x' })));

test('the roles of the gang have consecutive ranks in the order of job.yaml', () => {
  expect(ranks('framework: none\nroles: {worker: {instances: 2}, evaluator: {}, helper: {}, store: {kind: service}}')).toEqual({
    worker: '0-1',
    helper: '2',
  });
});

test('task 0 of the chief has rank 0, whatever the order of the roles', () => {
  expect(ranks('framework: none\nchief: lead\nroles: {worker: {instances: 3}, lead: {instances: 3}}')).toEqual({
    worker: '1-3',
    lead: '0, 4-5',
  });
});

test('each process of a task has a rank, and elastic roles start with their minimum', () => {
  expect(ranks('framework: pytorch\nroles: {worker: {instances: {min: 2, max: 4}, resources: {gpus: 4}}, other: {kind: gang}}')).toEqual({
    worker: '0-7',
    other: '8',
  });
  expect(ranks('framework: jax\nroles: {worker: {instances: 2, resources: {gpus: 4}}}')).toEqual({ worker: '0-1' });
});
