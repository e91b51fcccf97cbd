import fc from 'fast-check';
import { expect, test } from 'vitest';
import { stringify } from 'yaml';
import { TonyError } from '../../platform/errors.ts';
import { FRAMEWORK_NAMES } from '../frameworks/names.ts';
import type { Job } from '../job.ts';
import { parseJob } from './load-job.ts';
import { checkedJob } from './resolved-job.ts';
import { tensorBoardRole } from './tensorboard-role.ts';

const job = parseJob('name: j\ncommand: node train.ts\nroles: {worker: {}, evaluator: {}}\n', { file: 'job.yaml', folder: '/' });

/** null if job.yaml cannot express the job. */
function accepted(text: string): Job | null {
  try {
    return parseJob(text, { file: 'job.yaml', folder: '/' });
  } catch (error) {
    if (error instanceof TonyError && error.code === 'JOB_INVALID') {
      return null;
    }
    throw error;
  }
}

const role = fc.record(
  {
    instances: fc.oneof({ weight: 4, arbitrary: fc.integer({ min: 1, max: 100_000 }) }, fc.constant({ min: 1, max: 3 })),
    resources: fc.record(
      {
        memory: fc.constantFrom('512m', '1.5g', 2048, '8192t'),
        vcores: fc.constantFrom(1, 4096),
        gpus: fc.constantFrom(0, 1024),
        'yarn.io/fpga': fc.constantFrom(0, 1_000_000),
      },
      { requiredKeys: [] },
    ),
    command: fc.constant('node role.ts'),
    env: fc.dictionary(fc.constantFrom('A', '_b1'), fc.constantFrom('', 'x', 1, true), { maxKeys: 2 }),
    nodeLabel: fc.constant('a100'),
    docker: fc.constantFrom(null, { image: 'registry:5000/a/b@sha256:c', mounts: ['/a:/b', '/a:/b:ro+rslave'], network: 'host' }),
    restart: fc.record({ policy: fc.constantFrom('never', 'on-failure'), maxRestarts: fc.constantFrom(0, 10_000) }, { requiredKeys: [] }),
    timeout: fc.constantFrom('1s', '99999d'),
    kind: fc.oneof({ weight: 5, arbitrary: fc.constant(undefined) }, fc.constantFrom('gang', 'independent', 'service', 'sidecar')),
  },
  { requiredKeys: [] },
);

const file = fc.record(
  {
    name: fc.constantFrom('j', 'a job', 'x'.repeat(200)),
    command: fc.constant('node train.ts'),
    framework: fc.constantFrom(...FRAMEWORK_NAMES),
    strategy: fc.constantFrom('all-reduce', 'parameter-server', { type: 'parameter-server', staleness: 1_000_000 }),
    tensorboard: fc.constantFrom(true, false, { resources: { memory: '2g', vcores: 2 }, logdir: 'logs' }),
    timeout: fc.constantFrom('1s', '2.5h', '99999d'),
    restart: fc.constantFrom({}, { maxRestarts: 0 }),
    gang: fc.constant({ timeout: '570s' }),
    heartbeat: fc.record({ interval: fc.constantFrom('100ms', '60s'), missed: fc.constantFrom(2, 1000) }),
    checkpoint: fc.record(
      { dir: fc.constant('x'), everySteps: fc.constant(1_000_000), every: fc.constant('2h'), keep: fc.constant(10_000) },
      { requiredKeys: [] },
    ),
    master: fc.record(
      {
        resources: fc.constant({ memory: '1m', vcores: 64 }),
        nodeLabel: fc.constant('x'),
        docker: fc.constant({ image: 'a' }),
        env: fc.constant({ A: 1 }),
        logLevel: fc.constantFrom('debug', 'error'),
        failureWindow: fc.constant('10s'),
        startTimeout: fc.constant('1s'),
      },
      { requiredKeys: [] },
    ),
    priority: fc.constantFrom(0, 1000),
    data: fc.constant({ 'in-1': 'hdfs:///in' }),
    acls: fc.constant({ view: { users: ['*'] } }),
    tags: fc.constant(['mine']),
    roles: fc.dictionary(fc.constantFrom('worker', 'chief', 'ps', 'evaluator', 'tensorboard'), role, { minKeys: 1, maxKeys: 3 }),
  },
  { requiredKeys: ['name', 'command', 'roles'] },
);

test('every valid job.yaml gives a job that checkedJob accepts', () => {
  let count = 0;
  fc.assert(
    fc.property(file, (written) => {
      const parsed = accepted(stringify(written, { keepUndefined: false }));
      if (parsed === null) {
        return;
      }
      count += 1;
      const { serve, resources } = parsed.tensorboard;
      const named = parsed.roles.some(({ name }) => name === 'tensorboard');
      const whole = serve && !named ? { ...parsed, roles: [...parsed.roles, tensorBoardRole(resources)] } : parsed;
      expect(checkedJob(whole)).toEqual(whole);
    }),
    { numRuns: 900 },
  );
  expect(count).toBeGreaterThan(50);
});

test('checkedJob rejects an invalid Job that a program has changed, listing its mistakes', () => {
  const [worker, evaluator] = job.roles;
  if (worker === undefined || evaluator === undefined) {
    throw new Error('two roles');
  }
  const hiding = { ...worker, resources: { ...worker.resources, other: { 'yarn.io/gpu': 8 } } };
  expect(() => checkedJob({ ...job, roles: [hiding, { ...evaluator, name: 'worker' }] })).toThrow(
    expect.objectContaining({
      code: 'JOB_INVALID',
      message:
        'The job violates the rules of job.yaml: roles.0.resources.other.yarn.io/gpu: is not a resource type; did you mean `gpus`?; roles.1.name: is also the name of another role: worker.',
    }),
  );
});

test('checkedJob returns a copy that later changes do not affect', () => {
  const changing = structuredClone(job) as { name: string } & Job;
  const checked = checkedJob(changing);
  changing.name = 'another';
  expect(checked).toEqual(job);
});
