import { expect, test } from 'vitest';
import { roleTags } from '../conf/role-tags.ts';
import { parseSite } from '../conf/site.ts';
import type { Application } from '../hadoop/resource-manager-answers.ts';
import { type ClusterView, type Judgement, judge, limitsFor } from './admission.ts';
import { frozen, workers } from './simulator/rehearsal.ts';
import { role } from './simulator/world.ts';

const JOB = frozen({ roles: [workers({ instances: 3, maxInstances: 3, resources: { memoryMb: 1024, vcores: 1, gpus: 1, other: {} } })] });

function application(id: string, more: Partial<Application> = {}): Application {
  return {
    id,
    name: '',
    user: 'bob',
    queue: 'root.default',
    type: 'TONY',
    tags: roleTags(JOB.job),
    state: 'RUNNING',
    finalStatus: 'UNDEFINED',
    progress: 0,
    trackingUrl: '',
    diagnostics: '',
    startedAt: 1,
    finishedAt: null,
    amContainerLogs: null,
    amNodeHttp: null,
    allocatedMb: 0,
    allocatedVcores: 0,
    runningContainers: 0,
    used: {},
    logAggregation: null,
    ...more,
  };
}

function judged(quotas: string, applications: readonly Application[] = [], more: Partial<ClusterView> = {}): Judgement {
  const site = parseSite(`quotas:\n${quotas.replace(/^/gm, '  ')}`, 'hdfs://nn/apps/tony-ts/site.yaml');
  return judge(
    { ...JOB, applicationId: 'application_100_0005', user: 'alice' },
    { site, queue: 'root.default', applications, groupsOf: () => [], ...more },
  );
}

test('a job within all limits begins', () => {
  expect(judged('roles: {worker: {instances: 3, total: {gpus: 3}}}')).toEqual({ type: 'admitted' });
});

test('a job beyond a limit is refused, whatever its client has let pass', () => {
  expect(judged('roles: {worker: {instances: 2}}')).toEqual({
    type: 'refused',
    reason:
      'The job is beyond what hdfs://nn/apps/tony-ts/site.yaml allows. quotas.roles.worker.instances: role worker asks for 3 tasks; 2 are allowed (fits: instances: 2 in all).',
  });
});

test('of two jobs the one that was submitted first goes first', () => {
  const quotas = 'queues: {default: {roles: {worker: {total: {gpus: 4}}}}}';
  expect(judged(quotas, [application('application_100_0004')])).toEqual({
    type: 'waits',
    reason:
      'Waits for other jobs to end: quotas.queues.default.roles.worker.total.gpus is 4 gpus, of which application_100_0004 has 3 gpus, and this job asks for 3 gpus.',
  });
  for (const later of ['application_100_0006', 'application_100_10000', 'application_101_0001', 'application_100_0005']) {
    expect(judged(quotas, [application(later)])).toEqual({ type: 'admitted' });
  }
  expect(judged(quotas, [application('application_99_0009')]).type).toBe('waits');
  expect(judged(`over: fail\n${quotas}`, [application('application_100_0004')]).type).toBe('refused');
});

test('a job of another queue takes nothing of a queue', () => {
  const quotas = 'queues: {default: {total: {gpus: 4}}}';
  expect(judged(quotas, [application('application_100_0001', { queue: 'root.research' })])).toEqual({ type: 'admitted' });
});

test('a job that hides what it takes is counted by what the cluster says that it has', () => {
  const quotas = 'roles: {worker: {total: {gpus: 4}}}';
  const used = { 'memory-mb': 4096, vcores: 4, 'yarn.io/gpu': 2 };
  expect(judged(quotas, [application('application_100_0001', { tags: ['tony-ts'], used })]).type).toBe('waits');
  const evaluator = roleTags({ roles: [role({ name: 'evaluator', instances: 1, maxInstances: 1 })] });
  expect(judged(quotas, [application('application_100_0001', { tags: evaluator, used })]).type).toBe('waits');
  expect(judged(quotas, [application('application_100_0001', { tags: evaluator, used: { 'yarn.io/gpu': 1 } })])).toEqual({
    type: 'admitted',
  });
});

test('members of a group share its total', () => {
  const quotas = 'groups: {research: {total: {gpus: 4}}}';
  const groupsOf = (user: string) => (user === 'carol' ? [] : ['research']);
  expect(judged(quotas, [application('application_100_0001')], { groupsOf }).type).toBe('waits');
  expect(judged(quotas, [application('application_100_0001', { user: 'carol' })], { groupsOf })).toEqual({ type: 'admitted' });
});

test('a job that runs is held to the limits of time, and does not grow when it is beyond a limit that was lowered', () => {
  const view = (quotas: string): ClusterView => ({
    site: parseSite(`quotas:\n${quotas.replace(/^/gm, '  ')}`, 'x'),
    queue: 'root.default',
    applications: [],
    groupsOf: () => [],
  });
  expect(limitsFor(JOB, view('users: {"*": {timeout: 1h}}\nqueues: {default: {idle: 10m}}'))).toEqual({
    timeout: { ms: 3_600_000, path: 'quotas.users.*.timeout' },
    idle: { ms: 600_000, path: 'quotas.queues.default.idle' },
    mayGrow: true,
  });
  expect(limitsFor(JOB, view('roles: {worker: {instances: 1}}'))).toEqual({ timeout: null, idle: null, mayGrow: false });
});

test('a job whose own tags do not tell what it asks for is refused: others count by them', () => {
  const quotas = 'roles: {worker: {total: {gpus: 8}}}';
  const own = (tags: readonly string[]) => judged(quotas, [application('application_100_0005', { tags, user: 'alice' })]).type;
  expect(own(['tony-ts', ...roleTags(JOB.job), 'mine'])).toBe('admitted');
  expect(own(['tony-ts'])).toBe('refused');
  expect(own([...roleTags(JOB.job), 'tony-roles:worker:0'])).toBe('refused');
  expect(own(['tony-roles:worker:1'])).toBe('refused');
});
