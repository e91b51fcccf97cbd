import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { role } from '../job.fixture.ts';
import type { Role } from '../job.ts';
import { MOST_ROLES } from '../job-values.ts';
import { stagesOf } from '../role-stages.ts';
import { parseJob } from './load-job.ts';
import { checkedJob } from './resolved-job.ts';
import { type OrderedRole, orderProblems } from './role-order.ts';

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

test('reads after, endAfter, timeout and onExitCodes', () => {
  const { roles } = parse(`
  db: { kind: service, endAfter: { role: worker } }
  load: { kind: independent, timeout: 10m, restart: { onExitCodes: [75] } }
  worker: { after: [load, { role: db, state: running }] }
  evaluator: { after: { role: worker, state: running }, endAfter: { role: [worker, load], timeout: 30s, late: fail } }
`);
  expect(roles).toMatchObject([
    { after: [], endAfter: { roles: ['worker'], timeoutMs: 0, late: 'stop' }, timeoutMs: null, restart: { onExitCodes: null } },
    { timeoutMs: 600_000, restart: { onExitCodes: [75] } },
    {
      after: [
        { role: 'load', state: 'succeeded' },
        { role: 'db', state: 'running' },
      ],
    },
    { after: [{ role: 'worker', state: 'running' }], endAfter: { roles: ['worker', 'load'], timeoutMs: 30_000, late: 'fail' } },
  ]);
});

test('a name in `after` stands for a role that has succeeded', () => {
  const written = ['load', '{ role: load }', '[load]', '[{ role: load, state: succeeded }]'];
  const after = written.map((text) => parse(`  load: { kind: independent }\n  worker: { after: ${text} }\n`).roles[1]?.after);
  expect(after).toEqual(written.map(() => [{ role: 'load', state: 'succeeded' }]));
});

describe('rejects', () => {
  test.each([
    [
      'an unknown role',
      'worker: { after: { role: wroker } }',
      'roles.worker.after: there is no role `wroker`; did you mean `worker`? (roles: worker)',
    ],
    ['a role that waits for itself', 'worker: { after: { role: worker } }', 'a role cannot wait for itself'],
    ['an unknown state', 'a: { kind: independent }\n  worker: { after: { role: a, state: failed } }', 'roles.worker.after'],
    ['no condition', 'worker: { after: [] }', 'roles.worker.after'],
    [
      'two roles of the gang',
      'a: { after: { role: b } }\n  b: {}',
      '`a` and `b` belong to the gang, whose tasks start together: write `kind: independent` for one of them',
    ],
    [
      'a cycle',
      'a: { kind: independent, after: { role: b } }\n  b: { kind: independent, after: { role: c } }\n  c: { kind: independent, after: { role: a } }',
      'the roles wait for each other: a waits for b waits for c waits for a',
    ],
    [
      'a cycle through the gang',
      'chief: { after: { role: load } }\n  worker: {}\n  load: { kind: independent, after: { role: worker, state: running } }',
      'the roles wait for each other: chief waits for load waits for worker',
    ],
    [
      'a sidecar that waits for the end of the job',
      'worker: {}\n  report: { kind: sidecar, after: { role: worker } }',
      'the job ends when `worker` succeeds, so this role would never start: write `kind: independent`',
    ],
    ['a role that ends after itself', 'worker: { endAfter: { role: worker } }', 'a role cannot end after itself'],
    [
      'a role that ends after an unknown role',
      'worker: { endAfter: { role: [worker2] } }',
      'roles.worker.endAfter: there is no role `worker2`',
    ],
    ['a retry after exit code 0', 'worker: { restart: { onExitCodes: [0] } }', 'roles.worker.restart.onExitCodes.0'],
    [
      'retries without restarts',
      'worker: { restart: { policy: never, onExitCodes: [3] } }',
      'roles.worker.restart.onExitCodes: has no effect with `policy: never`',
    ],
    ['a time limit that is too short', 'worker: { timeout: 10ms }', 'must be at least 1 s'],
  ])('%s', (_, roles, message) => {
    expect(mistakeOf(`  ${roles}\n`)).toContain(message);
  });

  test('a role that waits for the chief, if the job ends with the chief', () => {
    const roles = '  chief: {}\n  worker: {}\n  report: { kind: independent, after: { role: worker } }\n';
    expect(mistakeOf(roles, 'successPolicy: chief\n')).toContain('the job ends when `chief` succeeds, so this role would never start');
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
    const job = parse('  load: { kind: independent }\n  worker: { after: { role: load } }\n');
    const [load, worker] = job.roles;
    expect(checkedJob(job)).toEqual(job);
    const circle = { ...job, roles: [{ ...load, after: [{ role: 'worker', state: 'running' }] }, worker] } as typeof job;
    expect(() => checkedJob(circle)).toThrow('roles.0.after: the roles wait for each other');
  });
});

test('added parameter servers do not inherit after, timeout and onExitCodes from the chief', () => {
  const head = 'framework: tfjs\nstrategy: parameter-server\n';
  const { roles } = parse(
    '  load: { kind: independent }\n  worker: { after: { role: load }, timeout: 1h, restart: { onExitCodes: [3] } }\n',
    head,
  );
  expect(roles.find(({ name }) => name === 'ps')).toMatchObject({
    after: [],
    timeoutMs: null,
    restart: { onExitCodes: null },
    endAfter: null,
  });
});

/** Roles of which each waits for all roles before it. The number of paths between roles doubles with each role. */
const ladder = (count: number): OrderedRole[] =>
  Array.from({ length: count }, (_, index) =>
    role({
      name: `r${index}`,
      after: Array.from({ length: index }, (_, other) => ({ role: `r${other}`, state: 'running' as const })),
    }),
  );

describe('circles', () => {
  const problemsOf = (roles: readonly OrderedRole[]) => orderProblems(roles, 'all');

  /** A check of every path would not end before the test's time limit. */
  test('are found among as many roles and paths as a job can have', () => {
    const roles = ladder(MOST_ROLES);
    expect(problemsOf(roles)).toEqual([]);
    const closed = roles.with(0, role({ name: 'r0', after: [{ role: `r${MOST_ROLES - 1}`, state: 'running' }] }));
    expect(problemsOf(closed)).toEqual([
      { path: ['r0', 'after'], message: expect.stringMatching(/wait for each other: r0 waits for r99 .*r0$/) },
    ]);
    expect(stagesOf({ roles: roles as Role[] })).toEqual([roles.map(({ name }) => name)]);
  });

  test('are reported exactly if roles wait for each other, each as a way along conditions that exist', () => {
    const waits = fc
      .integer({ min: 1, max: 9 })
      .chain((count) =>
        fc.tuple(
          fc.array(fc.tuple(fc.nat(count - 1), fc.nat(count - 1)), { maxLength: 20 }),
          fc.subarray([...Array(count).keys()]),
          fc.constant(count),
        ),
      );
    fc.assert(
      fc.property(waits, ([edges, ranked, count]) => {
        const isGang = (index: number) => ranked.includes(index);
        const conditions = edges.filter(([from, to]) => from !== to && !(isGang(from) && isGang(to)));
        const roles = Array.from({ length: count }, (_, index) =>
          role({
            name: `r${index}`,
            kind: isGang(index) ? 'gang' : 'independent',
            after: conditions.filter(([from]) => from === index).map(([, to]) => ({ role: `r${to}`, state: 'running' as const })),
          }),
        );
        const group = (index: number) => (isGang(index) ? -1 : index);
        // Independent computation: remove groups that wait for no remaining group, until nothing changes.
        let left = conditions.map(([from, to]) => [group(from), group(to)] as const);
        for (let before = -1; before !== left.length; ) {
          before = left.length;
          left = left.filter(([, to]) => left.some(([from]) => from === to));
        }
        const [problem, ...more] = problemsOf(roles);
        expect(more).toEqual([]);
        expect(problem !== undefined).toBe(left.length > 0);
        if (problem !== undefined) {
          const names = problem.message
            .replace(/^.*: /, '')
            .split(' waits for ')
            .map((name) => Number(name.slice(1)));
          expect(problem.path).toEqual([`r${names[0]}`, 'after']);
          expect(group(names[0] ?? -2)).toBe(group(names.at(-1) ?? -3));
          for (const [at, to] of names.slice(1).entries()) {
            expect(conditions.some((wait) => group(wait[0]) === group(names[at] ?? -2) && wait[1] === to)).toBe(true);
          }
        }
      }),
    );
  });
});

describe('a role that ends after others', () => {
  test.each([
    ['  a: { kind: independent, endAfter: { role: b } }\n  b: { kind: independent, endAfter: { role: a } }\n', 'a waits for b waits for a'],
    ['  a: { kind: independent, endAfter: { role: b } }\n  b: { kind: independent, after: { role: a } }\n', 'a waits for b waits for a'],
    [
      '  a: { kind: independent, endAfter: { role: b } }\n  b: { kind: independent, endAfter: { role: c } }\n  c: { kind: independent, after: { role: a } }\n',
      'a waits for b waits for c waits for a',
    ],
    // All ranked roles succeed at the same time, so c waits for b, too.
    ['  a: {}\n  b: { endAfter: { role: c } }\n  c: { kind: independent, after: { role: a } }\n', 'b waits for c waits for b'],
  ])('must not wait for its own end: %j', (roles, circle) => {
    expect(mistakeOf(roles)).toContain(`endAfter: the roles wait for each other's end: ${circle}`);
  });

  test.each([
    '  a: { kind: independent, endAfter: { role: b } }\n  b: { kind: independent, after: { role: a, state: running } }\n',
    '  a: { kind: independent, endAfter: { role: [b, c] } }\n  b: { kind: independent, endAfter: { role: c } }\n  c: {}\n',
    '  worker: {}\n  ps: { kind: gang, endAfter: { role: worker } }\n  e: { kind: independent, endAfter: { role: worker } }\n',
  ])('may wait for roles that end first: %j', (roles) => {
    expect(mistakeOf(roles)).toBe('');
  });
});

test('limits the number of roles and conditions before it compares them', () => {
  const job = parse('  worker: {}\n');
  const many = ladder(MOST_ROLES + 1) as Role[];
  expect(() => checkedJob({ ...job, roles: many })).toThrow('roles: a job has at most 100 roles');
  expect(mistakeOf(many.map(({ name }) => `  ${name}: {}\n`).join(''))).toContain('roles: a job has at most 100 roles');
  const after = Array.from({ length: MOST_ROLES + 1 }, () => ({ role: 'a', state: 'running' as const }));
  expect(() => checkedJob({ ...job, roles: [...job.roles, role({ name: 'b', after })] })).toThrow(
    'a role waits for at most 100 conditions',
  );
  expect(mistakeOf(`  a: {}\n  b: { kind: independent, after: [${'{ role: a },'.repeat(MOST_ROLES + 1)}] }\n`)).toContain(
    'a role waits for at most 100 conditions',
  );
});
