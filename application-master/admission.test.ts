import { describe, expect, test } from 'vitest';
import { frozen, role, workers } from '../conf/job.fixture.ts';
import { withFinalValues } from '../conf/resolve/final-values.ts';
import { parseSite } from '../conf/resolve/site.ts';
import { roleTags } from '../conf/role-tags.ts';
import { yarnApplication } from '../hadoop/yarn/application.fixture.ts';
import type { Application } from '../hadoop/yarn/resource-manager-answers.ts';
import { type AdmissionDecision, admissionPolicy, type ClusterView, checkLimits, limitsFor, refusalOfRunning } from './admission.ts';
import { asGeneration } from './job/state/counters.ts';

const JOB = frozen({ roles: [workers({ instances: 3, maxInstances: 3, resources: { memoryMb: 1024, vcores: 1, gpus: 1, other: {} } })] });

function application(id: string, more: Partial<Application> = {}): Application {
  return yarnApplication({ id, user: 'bob', tags: roleTags(JOB.job), name: '', startedAt: 1, runningContainers: 0, used: {}, ...more });
}

const OWN = application('application_100_0005', { user: 'alice' });

const FROZEN = { ...JOB, jobId: OWN.id, user: OWN.user };

/** By default, an application with a lower ID was submitted earlier. */
function view(site: string, { applications = [OWN], ...more }: Partial<ClusterView> = {}): ClusterView {
  return {
    jobId: OWN.id,
    user: OWN.user,
    site: parseSite(site, 'hdfs://nn/apps/tony-ts/site.yaml'),
    queue: 'root.default',
    own: applications.find(({ id }) => id === OWN.id) ?? null,
    minimumMemoryMb: 1024,
    applications,
    earlier: new Set(applications.map(({ id }) => id).filter((id) => id < OWN.id)),
    groupsOf: () => [],
    ...more,
  };
}

function quotas(text: string): string {
  return `quotas:\n${text.replace(/^/gm, '  ')}`;
}

/** Adds the job's own application if `others` does not contain it. */
function decisionFor(limits: string, others: readonly Application[] = [], more: Partial<ClusterView> = {}): AdmissionDecision {
  const applications = others.some(({ id }) => id === OWN.id) ? others : [...others, OWN];
  return checkLimits(FROZEN, view(quotas(limits), { applications, ...more }));
}

test('admits a job that stays within all limits', () => {
  expect(decisionFor('roles: {worker: {instances: 3, total: {gpus: 3}}}')).toEqual({ type: 'admitted' });
});

test('refuses a job beyond a limit, even if the client did not check it', () => {
  expect(decisionFor('roles: {worker: {instances: 2}}')).toEqual({
    type: 'refused',
    reason:
      'The job exceeds the limits in hdfs://nn/apps/tony-ts/site.yaml. quotas.roles.worker.instances: role worker requests 3 tasks, but the limit is 2 (allowed: instances: 2 in total).',
  });
});

test('admits the earlier of two competing submissions first', () => {
  const limits = 'queues: {default: {roles: {worker: {total: {gpus: 4}}}}}';
  expect(decisionFor(limits, [application('application_100_0004')])).toEqual({
    type: 'waits',
    reason:
      'Waiting for other jobs to end: quotas.queues.default.roles.worker.total.gpus is 4 gpus, of which application_100_0004 holds 3 gpus, and this job requests 3 gpus.',
  });
  expect(decisionFor(limits, [application('application_100_0006')])).toEqual({ type: 'admitted' });
  expect(decisionFor(limits, [application('application_100_0004')], { earlier: new Set() })).toEqual({ type: 'admitted' });
  expect(decisionFor(`over: fail\n${limits}`, [application('application_100_0004')]).type).toBe('refused');
});

test('a job with containers takes precedence over earlier submissions, and a job does not compete with itself', () => {
  const limits = 'roles: {worker: {total: {gpus: 4}}}';
  const later = 'application_100_0006';
  expect(decisionFor(limits, [application(later, { used: { 'yarn.io/gpu': 1 } })]).type).toBe('waits');
  expect(decisionFor(limits, [application(later, { runningContainers: 2 })]).type).toBe('waits');
  expect(decisionFor(limits, [application(later, { runningContainers: 1, used: { 'yarn.io/gpu': 0, vcores: 0 } })]).type).toBe('admitted');
  expect(decisionFor(limits, [application(OWN.id, { user: 'alice', runningContainers: 3, used: { 'yarn.io/gpu': 2 } })]).type).toBe(
    'admitted',
  );
});

test('a job in another queue does not count towards the total of a queue', () => {
  const limits = 'queues: {default: {total: {gpus: 4}}}';
  expect(decisionFor(limits, [application('application_100_0001', { queue: 'root.research' })])).toEqual({ type: 'admitted' });
});

test('counts a job with missing or incomplete tags by its usage in YARN', () => {
  const limits = 'roles: {worker: {total: {gpus: 4}}}';
  const used = { 'memory-mb': 4096, vcores: 4, 'yarn.io/gpu': 2 };
  expect(decisionFor(limits, [application('application_100_0001', { tags: ['tony-ts'], used })]).type).toBe('waits');
  const evaluator = roleTags({ ...JOB.job, roles: [role({ name: 'evaluator', instances: 1, maxInstances: 1 })] });
  expect(decisionFor(limits, [application('application_100_0001', { tags: evaluator, used })]).type).toBe('waits');
  expect(decisionFor(limits, [application('application_100_0001', { tags: evaluator, used: { 'yarn.io/gpu': 1 } })])).toEqual({
    type: 'admitted',
  });
});

test('members of a group share its total', () => {
  const limits = 'groups: {research: {total: {gpus: 4}}}';
  const groupsOf = (user: string) => (user === 'carol' ? [] : ['research']);
  expect(decisionFor(limits, [application('application_100_0001')], { groupsOf }).type).toBe('waits');
  expect(decisionFor(limits, [application('application_100_0001', { user: 'carol' })], { groupsOf })).toEqual({ type: 'admitted' });
});

test('a running job gets the time limits of the site file, and cannot grow while it exceeds a limit that the admin has lowered', () => {
  expect(limitsFor(FROZEN, view(quotas('users: {"*": {timeout: 1h}}\nqueues: {default: {idle: 10m}}')))).toEqual({
    timeout: { ms: 3_600_000, path: 'quotas.users.*.timeout' },
    idle: { ms: 600_000, path: 'quotas.queues.default.idle' },
    mayGrow: true,
  });
  expect(limitsFor(FROZEN, view(quotas('roles: {worker: {instances: 1}}')))).toEqual({ timeout: null, idle: null, mayGrow: false });
});

test('refuses a job whose tags differ from its request, because the totals are computed from the tags', () => {
  const limits = 'roles: {worker: {total: {gpus: 8}}}';
  const own = (tags: readonly string[]) => decisionFor(limits, [application('application_100_0005', { tags, user: 'alice' })]).type;
  expect(own(['tony-ts', ...roleTags(JOB.job), 'mine'])).toBe('admitted');
  expect(own(['tony-ts'])).toBe('refused');
  expect(own([...roleTags(JOB.job), 'tony-roles:worker:0'])).toBe('refused');
  expect(own(['tony-roles:worker:1'])).toBe('refused');
});

test('refuses a job that YARN does not list among the applications of type TONY', () => {
  expect(checkLimits(FROZEN, view(quotas('roles: {worker: {total: {gpus: 8}}}'), { applications: [] }))).toMatchObject({
    type: 'refused',
    reason: expect.stringContaining('does not list the job among the applications of type TONY'),
  });
});

test('refuses a job.json that names another user or another application', () => {
  expect(checkLimits({ ...FROZEN, user: 'bob' }, view('{}'))).toEqual({
    type: 'refused',
    reason: 'job.json belongs to user bob, but YARN runs the application for alice. Submit the job with tony-ts.',
  });
  expect(checkLimits({ ...FROZEN, jobId: 'application_99_0001' }, view('{}'))).toEqual({
    type: 'refused',
    reason: 'job.json belongs to application_99_0001, but YARN runs it as application_100_0005. Submit the job with tony-ts.',
  });
});

test('counts untagged containers, except the ApplicationMaster, as tasks of every role', () => {
  const limits = 'roles: {worker: {total: {instances: 4}}}';
  const silent = (runningContainers: number) =>
    decisionFor(limits, [application('application_100_0001', { tags: [], runningContainers })]).type;
  expect(silent(2)).toBe('admitted');
  expect(silent(3)).toBe('waits');
  const hidden = ['1', '2'].map((number) => application(`application_100_000${number}`, { tags: [], used: { 'memory-mb': 512 } }));
  expect(decisionFor(limits, hidden.slice(1)).type).toBe('admitted');
  expect(decisionFor(limits, hidden).type).toBe('waits');
  expect(decisionFor(limits, [application('application_100_0001', { runningContainers: 0 })]).type).toBe('waits');
});

test('refuses a job that lacks final values, lists all of them, and checks the queue that YARN reports', () => {
  const site = 'final: {queue: research, heartbeat: {interval: 3s}, roles: {"*": {nodeLabel: a100}}}';
  expect(checkLimits(FROZEN, view(site))).toEqual({
    type: 'refused',
    reason:
      'The job does not have the final values that hdfs://nn/apps/tony-ts/site.yaml sets: queue is default, but must be research; heartbeat.interval is 1s, but must be 3s; roles.worker.nodeLabel is not set, but must be a100. Submit the job with tony-ts.',
  });
  const { job } = withFinalValues(FROZEN.job, parseSite(site, 'x').final);
  expect(checkLimits({ ...FROZEN, job }, view(site, { queue: 'root.research' }))).toEqual({ type: 'admitted' });
  expect(checkLimits({ ...FROZEN, job }, view(site)).type).toBe('refused');
  // Final values added to the site file later do not affect a running job. However, the job may request more containers.
  expect(limitsFor(FROZEN, view(site)).mayGrow).toBe(true);
});

test('an attempt with running containers continues without a check of the limits only if job.json matches the tags', () => {
  const roles = (instances: number, gpus = 1) => [
    workers({ instances, maxInstances: instances, resources: { memoryMb: 1024, vcores: 1, gpus, other: {} } }),
  ];
  const asks = (changed: Partial<typeof FROZEN.job>) => ({ ...FROZEN, job: { ...FROZEN.job, ...changed } });
  const lowered = quotas('roles: {worker: {instances: 2}}');
  expect(refusalOfRunning(FROZEN, view(lowered), null)).toBeNull();
  for (const larger of [
    asks({ roles: roles(4) }),
    asks({ roles: roles(3, 8) }),
    asks({ master: { ...FROZEN.job.master, resources: { memoryMb: 2048, vcores: 1 } } }),
  ]) {
    expect(refusalOfRunning(larger, view(lowered), null)).toMatch(
      /^job\.json requests resources that differ from the application's tags, .*quotas\.roles\.worker\.instances/,
    );
    expect(refusalOfRunning(larger, view(quotas('roles: {worker: {total: {gpus: 99}}}')), null)).toMatch(
      /differ from the application's tags/,
    );
  }
  expect(refusalOfRunning(asks({ roles: roles(4) }), view(quotas('roles: {worker: {instances: 4}}')), null)).toBeNull();
});

test('checks a moved job against its new queue, both in the attempt that admitted it and in the next attempt', () => {
  const moved = (limits: string, others: readonly Application[] = []) => {
    const own = { ...OWN, queue: 'root.research' };
    return view(quotas(limits), { queue: own.queue, applications: [own, ...others] });
  };
  for (const admittedIn of ['default', null]) {
    expect(refusalOfRunning(FROZEN, view(quotas('queues: {default: {instances: 1}}')), admittedIn)).toBeNull();
    expect(refusalOfRunning(FROZEN, moved('queues: {research: {instances: 3}}'), admittedIn)).toBeNull();
    expect(refusalOfRunning(FROZEN, moved('queues: {research: {instances: 1}}'), admittedIn)).toMatch(
      /^The application was admitted in queue default and moved to queue research, .*quotas\.queues\.research\.instances/,
    );
    expect(refusalOfRunning(FROZEN, moved("users: {'*': {queues: [default]}}"), admittedIn)).toMatch(/queue research is not allowed/);
    const holds = application('application_100_0009', { queue: 'root.research', used: { 'yarn.io/gpu': 3 }, runningContainers: 4 });
    expect(refusalOfRunning(FROZEN, moved('queues: {research: {total: {gpus: 4}}}', [holds]), admittedIn)).toMatch(
      /application_100_0009 holds 3 gpus/,
    );
    const final = view('final: {queue: default}', { queue: 'root.research' });
    expect(refusalOfRunning(FROZEN, final, admittedIn)).toMatch(/queue is root\.research, but must be default/);
  }
  expect(refusalOfRunning(FROZEN, moved('queues: {research: {instances: 1}}'), 'research')).toBeNull();
});

test('uses the resources that YARN reports for the ApplicationMaster if rounding does not explain the difference to job.json', () => {
  const limits = "users: {'*': {task: {memory: 1g}}}";
  const has = (memory: number, more: Partial<ClusterView> = {}) =>
    decisionFor(limits, [application(OWN.id, { user: 'alice', usedByMaster: { 'memory-mb': memory, vcores: 1 } })], more);
  expect(has(1024)).toEqual({ type: 'admitted' });
  expect(has(4096)).toMatchObject({
    type: 'refused',
    reason: expect.stringContaining(
      'quotas.users.*.task.memory: the ApplicationMaster requests 4 GiB of memory, but the limit is 1 GiB of memory',
    ),
  });
  expect(has(4096, { minimumMemoryMb: 4096 })).toEqual({ type: 'admitted' });
});

test('accepts an ApplicationMaster that YARN rounded up by more than the smallest container', () => {
  // The Fair Scheduler rounds to its own increments, and the ResourceManager's minimum allocation may differ from the NodeManagers'
  // configuration.
  const rounded = application(OWN.id, { user: 'alice', usedByMaster: { 'memory-mb': 2048, vcores: 2 } });
  const total = (gpus: number) => quotas(`users: {alice: {total: {gpus: ${gpus}, memory: 5g}}}`);
  const admits = view(total(3), { applications: [rounded] });
  expect(checkLimits(FROZEN, admits)).toEqual({ type: 'admitted' });
  expect(limitsFor(FROZEN, admits).mayGrow).toBe(true);
  expect(refusalOfRunning(FROZEN, { ...admits, queue: 'root.research' }, 'default')).toBeNull();
  expect(checkLimits(FROZEN, view(quotas('users: {alice: {total: {memory: 4g}}}'), { applications: [rounded] }))).toMatchObject({
    type: 'refused',
    reason: expect.stringContaining('requests 5 GiB of memory'),
  });
});

test('roles without a node label get the node label of the submission', () => {
  const limits = 'queues: {default: {nodeLabels: [t4]}}';
  const labelled = (nodeLabel: string | null) => decisionFor(limits, [application(OWN.id, { user: 'alice', nodeLabel })]);
  expect(labelled(null)).toEqual({ type: 'admitted' });
  expect(labelled('t4')).toEqual({ type: 'admitted' });
  expect(labelled('a100')).toMatchObject({ type: 'refused', reason: expect.stringContaining('node label a100 is not allowed') });
});

test('checks the limits in a second attempt unless containers of the job are running', () => {
  expect(admissionPolicy(null, 0)).toBe(checkLimits);
  expect(admissionPolicy({ generation: asGeneration(0) }, 0)).toBe(checkLimits);
  expect(admissionPolicy({ generation: asGeneration(1) }, 1)).toBeNull();
  expect(admissionPolicy(null, 2)).toBeNull();
  const again = admissionPolicy({ generation: asGeneration(1) }, 0);
  const others = { applications: [OWN, application('application_100_0004')] };
  const total = quotas('over: fail\nroles: {worker: {total: {gpus: 4}}}');
  expect(again?.(FROZEN, view(total, others)).type).toBe('waits');
  expect(again?.(FROZEN, view(total))).toEqual({ type: 'admitted' });
  const alive = application(OWN.id, { user: OWN.user, runningContainers: 3 });
  expect(again?.(FROZEN, view(total, { applications: [alive, application('application_100_0004')] }))).toEqual({ type: 'admitted' });
  const larger = { ...FROZEN, job: { ...FROZEN.job, roles: [workers({ instances: 50, maxInstances: 50 })] } };
  expect(again?.(larger, view(total, { applications: [alive] })).type).toBe('waits');
  expect(again?.(FROZEN, view(quotas('roles: {worker: {instances: 2}}')))).toMatchObject({
    type: 'waits',
    reason: expect.stringContaining('quotas.roles.worker.instances'),
  });
});

test('counts every resource type that YARN reports for the ApplicationMaster', () => {
  const own = application(OWN.id, { user: 'alice', usedByMaster: { 'memory-mb': 1024, vcores: 1, 'yarn.io/gpu': 8 } });
  const refused = (limits: string) => checkLimits(FROZEN, view(quotas(limits), { applications: [own] }));
  expect(refused('users: {alice: {job: {gpus: 10}}}')).toMatchObject({ reason: expect.stringContaining('the job requests 11 gpus') });
  expect(refused('users: {alice: {task: {gpus: 7}}}')).toMatchObject({
    reason: expect.stringContaining('the ApplicationMaster requests 8 gpus'),
  });
  expect(refused('users: {alice: {task: {gpus: 8}, job: {gpus: 11}}}')).toEqual({ type: 'admitted' });
});

test('refuses a priority above the final one that YARN reports, but not one that YARN has lowered', () => {
  const { job } = withFinalValues(FROZEN.job, parseSite('final: {priority: 5}', 'x').final);
  const decision = (priority: number) =>
    checkLimits({ ...FROZEN, job }, view('final: {priority: 5}', { applications: [application(OWN.id, { user: 'alice', priority })] }));
  expect(decision(9)).toMatchObject({ type: 'refused', reason: expect.stringContaining('priority is 9, but must be 5') });
  expect(decision(5).type).toBe('admitted');
  expect(decision(3).type).toBe('admitted');
});

describe('what other applications declare counts only as far as the limits of their owners allow', () => {
  const limits = "roles: {worker: {total: {gpus: 8}}}\nusers: {'*': {total: {gpus: 3}}}";
  const claims = (gpus: number, more: Partial<Application> = {}, number = 1) =>
    application(`application_100_000${number}`, { user: 'eve', tags: [`tony-roles:*:0:m1024:v1+worker:${gpus}:m1024:g${gpus}`], ...more });

  test('a demand that its owner may never have counts nothing, or with the containers that it holds', () => {
    expect(decisionFor(limits, [claims(8)])).toEqual({ type: 'admitted' });
    expect(decisionFor(limits, [claims(8, { runningContainers: 2, used: { 'yarn.io/gpu': 5 } })])).toEqual({ type: 'admitted' });
    expect(decisionFor(limits, [claims(8, { runningContainers: 2, used: { 'yarn.io/gpu': 6 } })])).toMatchObject({
      reason: expect.stringContaining('of which application_100_0001 holds 6 gpus'),
    });
  });

  test('several demands count together at most as much as their owner may have', () => {
    expect(decisionFor(limits, [claims(3, {}, 1), claims(3, {}, 2), claims(3, {}, 3)])).toEqual({ type: 'admitted' });
    const holding = [1, 2, 3].map((number) => claims(3, { runningContainers: 2, used: { 'yarn.io/gpu': 1 } }, number));
    expect(decisionFor(limits, holding)).toEqual({ type: 'admitted' });
  });

  test('an earlier job that waits for a total that both share keeps its place', () => {
    const shared = 'roles: {worker: {total: {gpus: 4}}}';
    const [first, second] = [claims(3, { runningContainers: 4, used: { 'yarn.io/gpu': 3 } }, 1), claims(2, { user: 'carol' }, 2)];
    expect(decisionFor(shared, [first, second])).toMatchObject({ type: 'waits' });
    expect(decisionFor('roles: {worker: {total: {gpus: 6}}}', [first, claims(4, { user: 'carol' }, 2)])).toMatchObject({ type: 'waits' });
  });

  test('an application in a queue that its owner may not use declares nothing', () => {
    expect(decisionFor('roles: {worker: {total: {gpus: 4}}}\nusers: {eve: {queues: [other]}}', [claims(3)])).toEqual({ type: 'admitted' });
  });
});
