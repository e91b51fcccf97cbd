import { describe, expect, test } from 'vitest';
import { parseJob } from './load-job.ts';
import { checkedJob } from './resolved-job.ts';

const parse = (roles: string, head = '') =>
  parseJob(`name: stages\ncommand: run\n${head.includes('framework') ? '' : 'framework: none\n'}${head}roles:\n${roles}`, {
    file: 'job.yaml',
    folder: '/',
  });

const mistakeOf = (roles: string, head = ''): string => {
  try {
    parse(roles, head);
  } catch (error) {
    return String(error);
  }
  return '';
};

test('reads after, endAfter, timeLimit and retryOn', () => {
  const { roles } = parse(`
  db: { untracked: true, endAfter: { role: worker } }
  load: { ranked: false, timeLimit: 10m, retryOn: [75] }
  worker: { after: [{ role: load }, { role: db, state: running }] }
  evaluator: { after: { role: worker, state: running }, endAfter: { role: [worker, load], within: 30s, late: fail } }
`);
  expect(roles).toMatchObject([
    { after: [], endAfter: { roles: ['worker'], withinMs: 0, late: 'stop' }, timeLimitMs: null, retryOn: null },
    { timeLimitMs: 600_000, retryOn: [75] },
    {
      after: [
        { role: 'load', state: 'succeeded' },
        { role: 'db', state: 'running' },
      ],
    },
    { after: [{ role: 'worker', state: 'running' }], endAfter: { roles: ['worker', 'load'], withinMs: 30_000, late: 'fail' } },
  ]);
});

describe('rejects', () => {
  test.each([
    ['an unknown role', 'worker: { after: { role: wroker } }', 'roles.worker.after: there is no role `wroker` (roles: worker)'],
    ['a role that waits for itself', 'worker: { after: { role: worker } }', 'a role cannot wait for itself'],
    ['an unknown state', 'a: { ranked: false }\n  worker: { after: { role: a, state: failed } }', 'roles.worker.after'],
    ['no condition', 'worker: { after: [] }', 'roles.worker.after'],
    [
      'two roles of the gang',
      'a: { after: { role: b } }\n  b: {}',
      '`a` and `b` belong to the gang, whose tasks start together: write `ranked: false` for one of them',
    ],
    [
      'a cycle',
      'a: { ranked: false, after: { role: b } }\n  b: { ranked: false, after: { role: c } }\n  c: { ranked: false, after: { role: a } }',
      'the roles wait for each other: a waits for b waits for c waits for a',
    ],
    [
      'a cycle through the gang',
      'chief: { after: { role: load } }\n  worker: {}\n  load: { ranked: false, after: { role: worker, state: running } }',
      'the roles wait for each other: chief waits for load waits for worker',
    ],
    [
      'a sidecar that waits for the end of the job',
      'worker: {}\n  report: { sidecar: true, after: { role: worker } }',
      'the job ends when `worker` succeeds, so this role would never start: remove `sidecar` and `untracked`',
    ],
    ['a role that ends after itself', 'worker: { endAfter: { role: worker } }', 'a role cannot end after itself'],
    [
      'a role that ends after an unknown role',
      'worker: { endAfter: { role: [worker2] } }',
      'roles.worker.endAfter: there is no role `worker2`',
    ],
    ['a retry after exit code 0', 'worker: { retryOn: [0] }', 'roles.worker.retryOn.0'],
    [
      'retries without restarts',
      'worker: { retryOn: [3], restart: { policy: never } }',
      'roles.worker.retryOn: has no effect with `restart.policy: never`',
    ],
    ['a time limit that is too short', 'worker: { timeLimit: 10ms }', 'must be at least 1 s'],
  ])('%s', (_, roles, message) => {
    expect(mistakeOf(`  ${roles}\n`)).toContain(message);
  });

  test('a role that waits for the chief, if the job ends with the chief', () => {
    const roles = '  chief: {}\n  worker: {}\n  report: { ranked: false, after: { role: worker } }\n';
    expect(mistakeOf(roles, 'success: chief\n')).toContain('the job ends when `chief` succeeds, so this role would never start');
    expect(mistakeOf(roles)).toBe('');
  });

  test('roles that wait for the success or the end of parameter servers', () => {
    const head = 'framework: tfjs\nstrategy: parameter-server\n';
    const withServers = (rest: string) =>
      mistakeOf(`  worker: {}\n  ps: {}\n  evaluator: { ${rest} }\n`, head).replace(/^.*mistakes?:/s, '');
    expect(withServers('after: { role: ps }')).toContain('write `state: running`');
    expect(withServers('endAfter: { role: ps }')).toContain('name the role that trains');
    expect(withServers('after: { role: ps, state: running }, endAfter: { role: worker }')).toBe('');
  });

  test('the same mistakes in a job that a program has changed', () => {
    const job = parse('  load: { ranked: false }\n  worker: { after: { role: load } }\n');
    const [load, worker] = job.roles;
    expect(checkedJob(job)).toEqual(job);
    const circle = { ...job, roles: [{ ...load, after: [{ role: 'worker', state: 'running' }] }, worker] } as typeof job;
    expect(() => checkedJob(circle)).toThrow('roles.0.after: the roles wait for each other');
  });
});

test('added parameter servers do not inherit after, timeLimit and retryOn from the chief', () => {
  const head = 'framework: tfjs\nstrategy: parameter-server\n';
  const { roles } = parse('  load: { ranked: false }\n  worker: { after: { role: load }, timeLimit: 1h, retryOn: [3] }\n', head);
  expect(roles.find(({ name }) => name === 'ps')).toMatchObject({ after: [], timeLimitMs: null, retryOn: null, endAfter: null });
});
