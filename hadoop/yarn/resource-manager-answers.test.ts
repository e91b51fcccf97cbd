import { expect, test } from 'vitest';
import { applicationSchema } from './resource-manager-answers.ts';

const APPLICATION = { id: 'application_1_0001', user: 'alice', state: 'RUNNING', startedTime: 1 };

test.each([
  ['', null],
  ['<Not set>', null],
  ['<DEFAULT_PARTITION>', null],
  ['a100', 'a100'],
])('the node label expression %j is parsed as %j', (appNodeLabelExpression, expected) => {
  expect(applicationSchema.parse({ ...APPLICATION, appNodeLabelExpression }).nodeLabel).toBe(expected);
});

test('sums resources over node labels, separately for the ApplicationMaster and its tasks', () => {
  const amounts = (memory: number, gpus: number) => ({
    memory,
    vCores: 1,
    resourceInformations: { resourceInformation: [{ name: 'yarn.io/gpu', value: gpus }] },
  });
  const resourceUsagesByPartition = [
    { used: amounts(3072, 2), amUsed: amounts(1024, 0) },
    { used: amounts(512, 1), amUsed: amounts(0, 0) },
  ];
  expect(applicationSchema.parse({ ...APPLICATION, resourceInfo: { resourceUsagesByPartition } })).toMatchObject({
    used: { 'memory-mb': 2560, vcores: 0, 'yarn.io/gpu': 3 },
    usedByMaster: { 'memory-mb': 1024, vcores: 2, 'yarn.io/gpu': 0 },
  });
});

test('tasks never have negative amounts while YARN counts only the ApplicationMaster', () => {
  const resourceUsagesByPartition = [{ used: { memory: 0, vCores: 0 }, amUsed: { memory: 1024, vCores: 1 } }];
  expect(applicationSchema.parse({ ...APPLICATION, resourceInfo: { resourceUsagesByPartition } })).toMatchObject({
    used: { 'memory-mb': 0, vcores: 0 },
    usedByMaster: { 'memory-mb': 1024, vcores: 1 },
  });
});
