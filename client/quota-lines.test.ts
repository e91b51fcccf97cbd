import { expect, test } from 'vitest';
import { DEFAULT_SITE, parseSite } from '../conf/site.ts';
import { quotaLines } from './quota-lines.ts';

test('every limit is a line, in the units of the site file', () => {
  const { quotas } = parseSite(
    `quotas:
  over: fail
  roles: {worker: {instances: 8, task: {memory: 64g, yarn.io/fpga: 1}}}
  users: {'*': {timeout: 2h, queues: [a, b], nodeLabels: []}}`,
    'x',
  );
  expect(quotaLines(quotas, '/etc/x')).toEqual([
    'set in /etc/x; a job for which too little of a total is left fails at once',
    'quotas.roles.worker.instances          8',
    'quotas.roles.worker.task.memory        64 GiB',
    'quotas.roles.worker.task.yarn.io/fpga  1',
    'quotas.users.*.timeout                 2 h',
    'quotas.users.*.nodeLabels              none',
    'quotas.users.*.queues                  a, b',
  ]);
});

test('no limits are told as such', () => {
  expect(quotaLines(DEFAULT_SITE.quotas, null)).toEqual(['There is no site file, and there are no limits.']);
  expect(quotaLines(DEFAULT_SITE.quotas, '/etc/x')).toEqual(['/etc/x sets no limits.']);
});
