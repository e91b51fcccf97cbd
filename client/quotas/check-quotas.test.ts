import { expect, test } from 'vitest';
import { parseJob } from '../../conf/resolve/load-job.ts';
import { parseSite } from '../../conf/resolve/site.ts';
import { TonyError } from '../../platform/errors.ts';
import { withTensorBoard } from '../job/tensorboard-role.ts';
import { refuseBeyondQuotas, refuseNotFinal, violationsOfWhole } from './check-quotas.ts';

const ALICE = { user: 'alice', groups: [], queue: 'default' };
const JOB = 'name: j\ncommand: node train.ts\nheartbeat: {interval: 1s}\nroles: {worker: {instances: 3, nodeLabel: t4}}\n';

function refusal(call: () => void): string {
  try {
    call();
  } catch (error) {
    if (error instanceof TonyError) {
      return `${error.code} ${error.exitCode}: ${error.message}`;
    }
    throw error;
  }
  return '';
}

test('rejects a job that lacks final values, listing all of them, and accepts the job that loadJob returns', () => {
  const site = parseSite('final: {heartbeat: {interval: 3s}, queue: research, roles: {worker: {nodeLabel: a100}}}', '/etc/site.yaml');
  expect(refusal(() => refuseNotFinal(parseJob(JOB, { file: 'x', folder: '/' }), site))).toBe(
    `FINAL_VALUES_MISMATCH 4: The job lacks 3 final values of /etc/site.yaml:
  queue: research (the job: default)
  heartbeat.interval: 3s (the job: 1s)
  roles.worker.nodeLabel: a100 (the job: t4)`,
  );
  expect(refusal(() => refuseNotFinal(parseJob(JOB, { file: 'x', folder: '/', site }), site))).toBe('');
});

test('final values for roles apply to a role named tensorboard, but not to the TensorBoard that `tensorboard: true` adds', () => {
  const site = parseSite(
    `final: {tensorboard: {resources: {memory: 3g}}, env: {A: b}, roles: {'*': {resources: {memory: 4g, gpus: 1}, nodeLabel: a100, restart: {maxRestarts: 1}, env: {C: d}}}}`,
    'x',
  );
  const job = withTensorBoard(parseJob(`${JOB}tensorboard: true\n`, { file: 'x', folder: '/', site }));
  expect(job.roles.map(({ name, resources }) => [name, resources.memoryMb])).toEqual([
    ['worker', 4096],
    ['tensorboard', 3072],
  ]);
  expect(refusal(() => refuseNotFinal(job, site))).toBe('');
  const own = parseJob(`${JOB.replace('worker: ', 'tensorboard: {kind: sidecar, resources: {memory: 5g}}, worker: ')}`, {
    file: 'x',
    folder: '/',
    site,
  });
  expect(own.roles.map(({ name, resources }) => [name, resources.memoryMb])).toEqual([
    ['tensorboard', 4096],
    ['worker', 4096],
  ]);
});

test('rejects a job that exceeds limits, listing all of them', () => {
  const site = parseSite('quotas: {roles: {worker: {instances: 2, job: {vcores: 1}}}}', '/etc/site.yaml');
  expect(refusal(() => refuseBeyondQuotas(parseJob(JOB, { file: 'x', folder: '/' }), ALICE, site))).toBe(
    `QUOTA_EXCEEDED 4: The job exceeds 2 limits set in /etc/site.yaml:
  quotas.roles.worker.instances: role worker requests 3 tasks, but the limit is 2
    fits: instances: 2 in total
  quotas.roles.worker.job.vcores: role worker requests 3 vcores in total, but the limit is 1 vcore
    fits: at most 1 vcore in total (instances times vcores)`,
  );
});

test('every check counts the TensorBoard that `tensorboard` adds to a job', () => {
  const site = parseSite('quotas: {users: {alice: {instances: 3}}, roles: {tensorboard: {task: {memory: 2g}}}}', 'x');
  const job = parseJob(`${JOB}tensorboard: {resources: {memory: 3g}}\n`, { file: 'x', folder: '/' });
  const paths = ['quotas.roles.tensorboard.task.memory', 'quotas.users.alice.instances'];
  expect(violationsOfWhole(job, ALICE, site).map(({ path }) => path)).toEqual(paths);
  expect(violationsOfWhole(withTensorBoard(job), ALICE, site).map(({ path }) => path)).toEqual(paths);
  for (const path of paths) {
    expect(refusal(() => refuseBeyondQuotas(job, ALICE, site))).toContain(path);
  }
});
