import { expect, test } from 'vitest';
import { DEFAULT_SITE, parseSite } from '../../conf/resolve/site.ts';
import { terminalOf } from '../terminal/terminal.ts';
import { quotaLines } from './quota-lines.ts';

const NARROW = terminalOf({ columns: 80 });

test('formats limits as a table of subject, scope and amount, in readable units', () => {
  const { quotas } = parseSite(
    `quotas:
  over: fail
  roles: {worker: {instances: 8, task: {memory: 64g, gpus: 2}, total: {gpus: 8}}, '*': {instances: 1}}
  users: {'*': {timeout: 2h, queues: [a, b], nodeLabels: []}}
  queues: {research: {job: {yarn.io/fpga: 1}, roles: {worker: {total: {memory: 1536m}}}}}`,
    'x',
  );
  expect(quotaLines(quotas, '/etc/x', NARROW)).toEqual([
    'set in /etc/x; a job that would exceed a total fails immediately',
    'WHO                          LIMIT             AT MOST',
    'role worker                  each task         64 GiB, 2 gpus',
    '                             one job           8 tasks',
    '                             all running jobs  8 gpus',
    'every other role             one job           1 task',
    'every other user             run time          2 h',
    '                             node labels       none',
    '                             queues            a, b',
    'queue research               one job           1 yarn.io/fpga',
    'queue research, role worker  all running jobs  1.5 GiB',
  ]);
});

test("long values wrap, and no line exceeds the terminal's width", () => {
  const queues = Array.from({ length: 12 }, (_, index) => `queue-number-${index}`);
  const { quotas } = parseSite(`quotas: {groups: {research: {queues: [${queues.join(', ')}]}}}`, 'x');
  const lines = quotaLines(quotas, 'hdfs://namenode.example.com:8020/apps/tony-ts/site.yaml', NARROW);
  expect(Math.max(...lines.map(({ length }) => length))).toBeLessThan(80);
  for (const queue of queues) {
    expect(lines.join('\n')).toContain(queue);
  }
});

test('states that there are no limits', () => {
  expect(quotaLines(DEFAULT_SITE.quotas, null, NARROW)).toEqual(['There is no site file, so there are no limits.']);
  expect(quotaLines(DEFAULT_SITE.quotas, '/etc/x', NARROW)).toEqual(['/etc/x sets no limits.']);
});
