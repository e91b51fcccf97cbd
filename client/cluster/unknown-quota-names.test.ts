import { expect, test } from 'vitest';
import { parseSite } from '../../conf/resolve/site.ts';
import { knownNames, unknownNameLines, unknownNames } from './unknown-quota-names.ts';

const KNOWN = { resources: ['memory', 'vcores', 'yarn.io/fpga', 'nec.com/VE'], queues: ['root', 'default', 'research'] };

function lines(text: string): string[] {
  return unknownNameLines(unknownNames(parseSite(`quotas: ${text}`, 'tony-site.yaml').quotas, KNOWN));
}

test('reports resource types that the ResourceManager does not know, with a suggestion', () => {
  expect(
    lines("{users: {'*': {job: {yarn.io/fgpa: 3}, roles: {ps: {task: {nec.com/ve: 1}}}}}, roles: {worker: {total: {quantum: 1}}}}"),
  ).toEqual([
    'quotas.roles.worker.total.quantum has no effect: the cluster has no resource type quantum; it has memory, vcores, yarn.io/fpga, nec.com/VE',
    'quotas.users.*.job.yarn.io/fgpa has no effect: the cluster has no resource type yarn.io/fgpa; did you mean yarn.io/fpga?',
    'quotas.users.*.roles.ps.task.nec.com/ve has no effect: the cluster has no resource type nec.com/ve; did you mean nec.com/VE?',
  ]);
});

test('accepts known types, and keys such as memory and instances, on every cluster', () => {
  expect(lines('{roles: {worker: {task: {memory: 1g, gpus: 1, yarn.io/fpga: 1}, total: {instances: 1, vcores: 3}}}}')).toEqual([]);
});

test('reports queues that the ResourceManager does not know', () => {
  const quotas =
    "{users: {'*': {queues: [default, reserch]}}, queues: {'*': {instances: 1}, root: {instances: 9}, resarch: {instances: 1}}}";
  expect(lines(quotas)).toEqual([
    'quotas.queues.resarch has no effect: the cluster has no queue resarch; did you mean research?',
    'quotas.users.*.queues.1 has no effect: the cluster has no queue reserch; did you mean research?',
  ]);
});

test('knownNames returns resource types and queues under the names that the site file uses', async () => {
  const resourceManager = {
    newApplication: async () => ({ applicationId: 'x', maximum: { 'memory-mb': 1, vcores: 1, 'yarn.io/gpu': 1, 'yarn.io/fpga': 1 } }),
    queues: async () => [{ name: 'gpu', path: 'root.ml.gpu', state: 'RUNNING', capacity: 1, usedCapacity: 0 }],
  };
  expect(await knownNames(resourceManager)).toEqual({
    resources: ['memory', 'vcores', 'gpus', 'yarn.io/fpga'],
    queues: ['root', 'ml', 'gpu'],
  });
});
