import { expect, test } from 'vitest';
import { explainKey } from './explain-key.ts';
import { jobJsonSchema } from './job-schema.ts';
import { siteJsonSchema } from './resolve/site.ts';

test('explains a key by its path, for any role name', () => {
  expect(explainKey(jobJsonSchema(), 'roles.worker.restart.maxRestarts')).toMatchObject({
    description: expect.stringContaining('Maximum number of restarts of each task'),
    value: 'a whole number from 0 to 10000',
    default: '3',
    children: [],
  });
  expect(explainKey(jobJsonSchema(), 'roles.reader.instances')?.value).toBe('a whole number from 1 to 100000, or a mapping');
  expect(explainKey(siteJsonSchema(), 'quotas.queues.research.roles.worker.task.gpus')?.description).toContain('yarn.io/gpu');
});

test.each([
  ['roles.worker.resources.memory', '2g'],
  ['roles.worker.instances', '1'],
  ['roles.worker.docker', 'null'],
  ['heartbeat.interval', '1s'],
  ['gang.timeout', '5m'],
  ['tensorboard', 'false'],
  ['strategy', 'all-reduce'],
  ['queue', 'default'],
  ['heartbeat', null],
  ['timeout', null],
])('the default of %s is written as in job.yaml', (key, fallback) => {
  expect(explainKey(jobJsonSchema(), key)?.default).toBe(fallback);
});

test('a duration names its limits', () => {
  expect(explainKey(jobJsonSchema(), 'heartbeat.interval')?.description).toContain('at least 100 ms and at most 1 min');
});

test('lists the keys below a key', () => {
  expect(explainKey(jobJsonSchema(), 'checkpoint')?.children.map(({ key }) => key)).toEqual(['dir', 'everySteps', 'every', 'keep', 'sync']);
  expect(explainKey(jobJsonSchema(), '')?.children.map(({ key }) => key)).toContain('strategy');
});

test.each(['nothing', 'queue.more', 'checkpoint.nothing'])('returns null for the unknown key %s', (key) => {
  expect(explainKey(jobJsonSchema(), key)).toBeNull();
});
