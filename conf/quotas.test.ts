import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Job } from './job.ts';
import { shortagesOf, TakenResources } from './quota-order.ts';
import { allowedQueues, violationsOf } from './quota-violations.ts';
import { type Owner, queueName, type RunningJob, setsTotals, takenBy, timeLimitOf } from './quotas.ts';
import { parseJob } from './resolve/load-job.ts';
import { parseSite } from './resolve/site.ts';
import { demandOfTags, roleTags } from './role-tags.ts';

const ALICE: Owner = { user: 'alice', groups: ['research'], queue: 'default' };

function job(more: string): Job {
  return parseJob(`name: j\ncommand: node train.ts\n${more}`, { file: 'job.yaml', folder: '/' });
}

function quotas(text: string) {
  return parseSite(`quotas:\n${text.replace(/^/gm, '  ')}`, 'tony-site.yaml').quotas;
}

function violations(text: string, requested: Job, owner: Owner = ALICE): string[] {
  return violationsOf(requested, owner, quotas(text)).map(({ path, message, fits }) => `${path}: ${message} -> ${fits}`);
}

const FOUR_WORKERS = job('roles: {worker: {instances: 4, resources: {memory: 4g, gpus: 2}}, ps: {kind: service, instances: 2}}');

test('a job without quotas has no violations', () => {
  expect(violations('{}', FOUR_WORKERS)).toEqual([]);
});

test('lists all violations at once, with the allowed and the fitting value', () => {
  const limits = `
roles:
  worker: {instances: 3, task: {gpus: 1, memory: 2g}, job: {gpus: 6}, total: {gpus: 7}}
  '*': {instances: 1}
users:
  alice: {timeout: 1h, nodeLabels: [a100], queues: [ml]}`;
  const requested = job(`timeout: 2h
roles: {worker: {instances: 4, nodeLabel: v100, resources: {memory: 4g, gpus: 2}}, ps: {kind: service, instances: 2}}`);
  expect(violations(limits, requested)).toEqual([
    'quotas.roles.worker.instances: role worker requests 4 tasks, but the limit is 3 -> instances: 3 in total',
    'quotas.roles.worker.task.memory: each task of role worker requests 4 GiB of memory, but the limit is 2 GiB of memory -> roles.worker.resources.memory: 2048m',
    'quotas.roles.worker.task.gpus: each task of role worker requests 2 gpus, but the limit is 1 gpu -> roles.worker.resources.gpus: 1',
    'quotas.roles.worker.job.gpus: role worker requests 8 gpus in total, but the limit is 6 gpus -> at most 6 gpus in total (instances times gpus)',
    'quotas.roles.worker.total.gpus: role worker requests 8 gpus in total, but the limit for all running jobs together is 7 gpus -> at most 7 gpus in total (instances times gpus)',
    'quotas.roles.*.instances: role ps requests 2 tasks, but the limit is 1 -> instances: 1 in total',
    'quotas.users.alice.queues: queue default is not allowed; allowed: ml -> queue: ml',
    "quotas.users.alice.timeout: the job's timeout is 2 h, but the limit is 1 h -> timeout: 3600s",
    'quotas.users.alice.nodeLabels: node label v100 is not allowed; allowed: a100 -> roles.worker.nodeLabel: a100',
  ]);
});

test.each<[string, string, Owner, string[] | undefined]>([
  ['no entry lists queues', 'users: {"*": {timeout: 1h}}', ALICE, undefined],
  ['the entry "*"', 'users: {"*": {queues: [a]}}', ALICE, ['a']],
  ['a group before "*"', 'users: {"*": {queues: [a]}}\ngroups: {research: {queues: [b]}}', ALICE, ['b']],
  [
    'all queues of all groups',
    'groups: {research: {queues: [b]}, ml: {queues: [c, b]}}',
    { ...ALICE, groups: ['ml', 'research'] },
    ['c', 'b'],
  ],
  ["the user's own entry before a group's", 'users: {alice: {queues: [a]}}\ngroups: {research: {queues: [b]}}', ALICE, ['a']],
  ['an entry without queues replaces "*"', 'users: {alice: {timeout: 1h}, "*": {queues: [a]}}', ALICE, undefined],
])('the allowed queues of a user: %s', (_, text, owner, expected) => {
  expect(allowedQueues(quotas(text), owner)?.queues).toEqual(expected);
});

test('a listed user has the limits of its own entry, and all other users those of "*"', () => {
  const limits = `users: {alice: {instances: 100}, '*': {instances: 5}}`;
  expect(violations(limits, FOUR_WORKERS)).toEqual([]);
  expect(violations(limits, FOUR_WORKERS, { ...ALICE, user: 'bob' })).toHaveLength(1);
});

test('a queue or a group may limit a role', () => {
  const limits = `queues: {ml: {roles: {worker: {total: {gpus: 4}}}}}\ngroups: {research: {roles: {'*': {task: {gpus: 1}}}}}`;
  expect(violations(limits, FOUR_WORKERS)).toEqual([expect.stringContaining('quotas.groups.research.roles.*.task.gpus')]);
  expect(violations(limits, FOUR_WORKERS, { user: 'alice', groups: [], queue: 'ml' })).toEqual([
    expect.stringContaining('quotas.queues.ml.roles.worker.total.gpus'),
  ]);
});

test('quotas name other resource types of YARN by their YARN names', () => {
  const requested = job('roles: {worker: {resources: {yarn.io/fpga: 2}}}');
  expect(violations(`roles: {worker: {task: {yarn.io/fpga: 1}}}`, requested)).toEqual([expect.stringContaining('2 yarn.io/fpga')]);
});

test('an elastic role counts with its maximum size', () => {
  expect(violations(`roles: {worker: {instances: 4}}`, job('roles: {worker: {instances: {min: 1, max: 8}}}'))).toHaveLength(1);
});

test('the shortest of several time limits applies', () => {
  const limits = quotas(`users: {alice: {timeout: 2h, idle: 1h}}\ngroups: {research: {timeout: 1h}}`);
  expect(timeLimitOf(limits, ALICE, 'timeout')).toEqual({ ms: 3_600_000, path: 'quotas.groups.research.timeout' });
  expect(timeLimitOf(limits, ALICE, 'idle')).toEqual({ ms: 3_600_000, path: 'quotas.users.alice.idle' });
  expect(timeLimitOf(limits, { ...ALICE, user: 'bob' }, 'idle')).toBeNull();
});

test('all jobs of a role, user, group or queue share its total', () => {
  const running: RunningJob[] = [
    {
      jobId: 'a1',
      user: 'alice',
      groups: ['research'],
      queue: 'ml',
      roles: { worker: { gpus: 2, instances: 1 } },
      peak: { gpus: 2, instances: 1 },
      master: {},
      beyond: {},
    },
    {
      jobId: 'b1',
      user: 'bob',
      groups: [],
      queue: 'default',
      roles: { worker: { gpus: 3 }, evaluator: { gpus: 1 } },
      peak: { gpus: 4 },
      master: {},
      beyond: {},
    },
  ];
  const requested = job('roles: {worker: {instances: 2, resources: {gpus: 1}}}');
  const short = (text: string) =>
    shortagesOf(requested, ALICE, quotas(text), TakenResources.of(running)).map(({ path, used, holders }) => [path, used, holders]);
  expect(short(`roles: {worker: {total: {gpus: 7}}}`)).toEqual([]);
  expect(short(`roles: {worker: {total: {gpus: 6}}}`)).toEqual([['quotas.roles.worker.total.gpus', 5, ['a1', 'b1']]]);
  expect(short(`users: {'*': {total: {gpus: 3}}}`)).toEqual([['quotas.users.*.total.gpus', 2, ['a1']]]);
  expect(short(`groups: {research: {total: {gpus: 3}}}`)).toEqual([['quotas.groups.research.total.gpus', 2, ['a1']]]);
  expect(short(`queues: {default: {total: {gpus: 5}}}`)).toEqual([['quotas.queues.default.total.gpus', 4, ['b1']]]);
  expect(short(`queues: {default: {roles: {worker: {total: {gpus: 5}}}}}`)).toEqual([]);
});

test('jobs admitted in order of their IDs stay within the total, and the first one never waits', () => {
  const limits = quotas(`queues: {ml: {roles: {worker: {total: {gpus: 8}}}}}`);
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 8 }), { minLength: 1, maxLength: 12 }), (gpus) => {
      const admitted: RunningJob[] = [];
      for (const [index, each] of gpus.entries()) {
        const requested = job(`roles: {worker: {resources: {gpus: ${each}}}}`);
        const owner = { user: `u${index}`, groups: [], queue: 'ml' };
        const roles = { worker: { gpus: each, instances: 1 } };
        if (shortagesOf(requested, owner, limits, TakenResources.of(admitted)).length === 0) {
          admitted.push({ ...owner, jobId: `a${index}`, roles, peak: roles.worker, master: {}, beyond: {} });
        } else {
          expect(index).toBeGreaterThan(0);
        }
      }
      expect(admitted.reduce((sum, { roles }) => sum + (roles.worker?.gpus ?? 0), 0)).toBeLessThanOrEqual(8);
    }),
  );
});

test("a job's demand counts before YARN allocates it, and resources beyond the demand count for every role", () => {
  const declared = { gpus: 4, memory: 1024 };
  expect(takenBy({ roles: { worker: declared }, peak: declared, master: {} }, { gpus: 1, memory: 512, vcores: 0 }, {})).toEqual({
    roles: { worker: declared },
    peak: declared,
    master: {},
    beyond: {},
  });
  const hiding = {
    ...ALICE,
    jobId: 'x',
    ...takenBy({ roles: { evaluator: { gpus: 1 } }, peak: { gpus: 1 }, master: {} }, { gpus: 4 }, {}),
  };
  expect(hiding.beyond).toEqual({ gpus: 3 });
  const requested = job('roles: {worker: {resources: {gpus: 1}}}');
  expect(shortagesOf(requested, ALICE, quotas(`roles: {worker: {total: {gpus: 3}}}`), TakenResources.of([hiding]))).toHaveLength(1);
  expect(shortagesOf(requested, ALICE, quotas(`roles: {worker: {total: {gpus: 4}}}`), TakenResources.of([hiding]))).toEqual([]);
  expect(takenBy(null, { gpus: 2 }, { memory: 1024 })).toEqual({ roles: {}, peak: {}, master: { memory: 1024 }, beyond: { gpus: 2 } });
});

test('the ApplicationMaster counts towards limits of whole jobs, and not towards limits of roles', () => {
  const large = job('master: {resources: {memory: 100g, vcores: 60}}\nroles: {worker: {resources: {memory: 1g}}}');
  const paths = (requested: typeof large, text: string) => violationsOf(requested, ALICE, quotas(text)).map(({ path }) => path);
  expect(paths(large, "users: {'*': {job: {memory: 50g}, total: {vcores: 60}}}")).toEqual([
    'quotas.users.*.job.memory',
    'quotas.users.*.total.vcores',
  ]);
  expect(paths(large, 'queues: {default: {task: {memory: 50g, vcores: 60}}}')).toEqual(['quotas.queues.default.task.memory']);
  expect(paths(large, 'roles: {worker: {task: {memory: 1g}, job: {memory: 1g}, total: {memory: 1g}}}')).toEqual([]);
  const usual = job('roles: {worker: {resources: {memory: 512m}}}');
  expect(paths(usual, "users: {'*': {task: {memory: 512m}, job: {memory: 1536m}}}")).toEqual([]);
  expect(violationsOf(usual, ALICE, quotas("users: {'*': {job: {memory: 1g}}}"))).toEqual([
    {
      path: 'quotas.users.*.job.memory',
      message: 'the job requests 1.5 GiB of memory in total, including its ApplicationMaster, but the limit is 1 GiB of memory',
      fits: 'at most 1 GiB of memory in total (instances times memory, plus master.resources.memory)',
    },
  ]);
});

test("ApplicationMasters of earlier jobs count with the larger of their demand and YARN's allocation", () => {
  const first = (violations: number, has: number): RunningJob => {
    const demand = { roles: { worker: { memory: 1024 } }, peak: { memory: 1024 }, master: { memory: violations } };
    return { ...ALICE, jobId: 'a1', ...takenBy(demand, {}, { memory: has }) };
  };
  const requested = job('roles: {worker: {resources: {memory: 1g}}}');
  const used = (running: RunningJob) =>
    shortagesOf(requested, ALICE, quotas("users: {'*': {total: {memory: 4g}}}"), TakenResources.of([running])).map((each) => each.used);
  expect(used(first(1024, 0))).toEqual([]);
  expect(used(first(2048, 1024))).toEqual([3072]);
  expect(used(first(1024, 51_200))).toEqual([52_224]);
});

test('roles that run one after another count with their peak', () => {
  const staged = (after: string) =>
    job(
      `roles: {load: {kind: independent, instances: 2, resources: {gpus: 1}}, worker: {instances: 3, resources: {gpus: 2}, after: ${after}}}`,
    );
  const [sequential, together] = [staged('{role: load}'), staged('{role: load, state: running}')];
  const paths = (requested: Job, text: string) => violationsOf(requested, ALICE, quotas(text)).map(({ path }) => path);
  const limits = "users: {'*': {instances: 3, job: {gpus: 6}}}";
  expect(paths(sequential, limits)).toEqual([]);
  expect(paths(together, limits)).toEqual(['quotas.users.*.instances', 'quotas.users.*.job.gpus']);
  expect(paths(sequential, 'roles: {load: {job: {gpus: 1}}}')).toEqual(['quotas.roles.load.job.gpus']);
  const running = (requested: Job, gpus: number): RunningJob => {
    return { ...ALICE, jobId: 'a1', ...takenBy(demandOfTags(roleTags(requested)), { gpus }, {}) };
  };
  const used = (requested: Job, gpus: number) =>
    shortagesOf(FOUR_WORKERS, ALICE, quotas("users: {'*': {total: {gpus: 8}}}"), TakenResources.of([running(requested, gpus)])).map(
      (each) => each.used,
    );
  // If a job holds more than its tags state, the amount that it holds counts.
  expect([used(sequential, 2), used(sequential, 7), used(together, 2)]).toEqual([[6], [7], [8]]);
});

test('quotas ignore the case of resource types in tags', () => {
  const requested = job('roles: {worker: {resources: {nec.com/VE: 2}}}');
  const violations = demandOfTags(roleTags(requested).map((tag) => tag.toLowerCase()));
  const running = { ...ALICE, jobId: 'a1', ...takenBy(violations, { 'nec.com/VE': 1 }, {}) };
  expect(running.beyond).toEqual({});
  expect(shortagesOf(requested, ALICE, quotas('roles: {worker: {total: {nec.com/VE: 3}}}'), TakenResources.of([running]))).toMatchObject([
    { asked: 2, used: 2 },
  ]);
});

test.each([
  ['root.default', 'default'],
  ['default', 'default'],
  ['root.a.b', 'b'],
])('the queue %s has the name %s', (queue, name) => {
  expect(queueName(queue)).toBe(name);
});

test.each([
  ['roles: {worker: {instances: 1}}', false],
  ['roles: {worker: {total: {gpus: 1}}}', true],
  ['users: {alice: {total: {}}}', true],
  ["queues: {ml: {roles: {'*': {total: {gpus: 1}}}}}", true],
])('setsTotals for %s is %s', (text, expected) => {
  expect(setsTotals(quotas(text))).toBe(expected);
});
