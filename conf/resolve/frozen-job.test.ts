import { expect, test } from 'vitest';
import type { FrozenJob, Role } from '../job.ts';
import { parseFrozenJob } from './frozen-job.ts';
import { parseJob } from './load-job.ts';
import { tensorBoardRole } from './tensorboard-role.ts';

const frozen: FrozenJob = {
  version: 1,
  jobId: 'application_1795225023264_0001',
  user: 'alice',
  submittedAt: 1_795_225_023_264,
  job: parseJob('name: hello\nroles: {worker: {command: node train.ts}}\n', { file: 'job.yaml', folder: '/' }),
  staging: 'hdfs://nn/user/alice/.tony-ts/jobs/application_1795225023264_0001',
  history: 'hdfs://nn/user/alice/.tony-ts/history/application_1795225023264_0001',
  historyShared: false,
  historyUrl: null,
  checkpointDir: 'hdfs://nn/checkpoints',
  summaryDir: 'hdfs://nn/summaries',
  outputDir: 'hdfs://nn/output',
  data: {},
  principal: null,
  resources: [{ name: 'tony', uri: 'hdfs://nn/x', type: 'archive', visibility: 'private', size: 1, timestamp: 2 }],
  roleResources: {},
  fileSystems: [],
  cacheEntries: [],
  cluster: { kind: 'yarn', hadoop: { 'fs.defaultFS': 'hdfs://nn' } },
};

function withResources(resources: object): string {
  const [worker] = frozen.job.roles;
  return withWorkers({ resources: { ...worker?.resources, ...resources } as Role['resources'] });
}

function withJob(changes: object): string {
  return JSON.stringify({ ...frozen, job: { ...frozen.job, ...changes } });
}

function withWorkers(...changes: Partial<Role>[]): string {
  return JSON.stringify({ ...frozen, job: { ...frozen.job, roles: changes.map((each) => ({ ...frozen.job.roles[0], ...each })) } });
}

test('parseFrozenJob reads back a written job', () => {
  expect(parseFrozenJob(JSON.stringify(frozen))).toEqual(frozen);
});

test.each([
  ['text that is not JSON', '{', /is not valid JSON/],
  ['another version', JSON.stringify({ ...frozen, version: 2 }), /version/],
  ['a missing part', JSON.stringify({ ...frozen, job: { ...frozen.job, roles: [] } }), /job\.roles/],
  ['a list', '[]', /job\.json/],
  ['GPUs under their YARN name', withResources({ other: { 'yarn.io/gpu': 8 } }), /other\.yarn\.io\/gpu: .*did you mean `gpus`/],
  ['memory under its YARN name', withResources({ other: { 'memory-mb': 500_000 } }), /other\.memory-mb: .*`memory`/],
  ['vcores a second time', withResources({ other: { vcores: 64 } }), /other\.vcores: .*separate key/],
  ['memory a second time', withResources({ other: { memory: 1 } }), /other\.memory: .*separate key/],
  ['GPUs a second time', withResources({ other: { gpus: 0 } }), /other\.gpus: .*separate key/],
  ['a number of tasks among resources', withResources({ other: { instances: 0 } }), /other\.instances: .*next to `resources`/],
  ['a resource type that a tag cannot encode', withResources({ other: { 'a:b': 1 } }), /other\.a:b: is not a valid resource type name/],
  ['an unknown key among resources', withResources({ gpu: 8 }), /job\.roles\.0\.resources: .*gpu/],
  ['no memory', withResources({ memoryMb: 0 }), /memoryMb/],
  ['more memory than sums can represent', withResources({ memoryMb: 2 ** 52 }), /memoryMb/],
  ['more GPUs than job.yaml allows', withResources({ gpus: 1025 }), /resources\.gpus/],
  ['no vcore', withResources({ vcores: 0 }), /resources\.vcores/],
  ['no task', withWorkers({ instances: 0, maxInstances: 0 }), /job\.roles\.0\.instances/],
  [
    'two roles with the same name',
    withWorkers({ instances: 50, maxInstances: 50 }, { chief: false }),
    /job\.roles\.1\.name: is also the name of another role/,
  ],
  ['a role name that a tag cannot encode', withWorkers({ name: 'a:b' }), /job\.roles\.0\.name: is not a valid role name/],
  ['a role name with a capital letter', withWorkers({ name: 'Worker' }), /job\.roles\.0\.name: is not a valid role name/],
  ['an empty node label', withWorkers({ nodeLabel: '' }), /job\.roles\.0\.nodeLabel/],
  ['two chiefs', withWorkers({}, { name: 'other' }), /job\.roles: exactly one role must be the chief/],
  ['no chief', withWorkers({ chief: false }), /job\.roles: exactly one role must be the chief/],
  ['a chief that is a sidecar', withWorkers({ kind: 'sidecar' }), /job\.roles\.0\.chief: the chief must be of kind gang or independent/],
  ['an unknown kind', withWorkers({ kind: 'tracked' as 'gang' }), /job\.roles\.0\.kind/],
  ['a limit on restarts that is not a number', withJob({ restart: { maxRestarts: -1 } }), /job\.restart\.maxRestarts/],
  ['parameter servers without the parameter-server strategy', withWorkers({ servesParameters: true }), /job\.roles\.0\.servesParameters/],
  [
    'more restarts than job.yaml allows',
    withWorkers({ restart: { policy: 'never', maxRestarts: 10_001, onExitCodes: null } }),
    /job\.roles\.0\.restart/,
  ],
  ['a timeout of 0', withJob({ timeoutMs: 0 }), /job\.timeoutMs/],
  ['heartbeats once a day', withJob({ heartbeat: { intervalMs: 86_400_000, missed: 2 } }), /job\.heartbeat\.intervalMs/],
  [
    'an ApplicationMaster without memory',
    withJob({ master: { ...frozen.job.master, resources: { memoryMb: 0, vcores: 1 } } }),
    /job\.master\.resources\.memoryMb/,
  ],
  ['tags that look like the tags of roles', withJob({ tags: ['TONY-ROLES:worker:0'] }), /job\.tags\.0/],
  ['an unknown key of the job', withJob({ maximum: 1 }), /job: .*maximum/],
  ['an unknown key of the file', JSON.stringify({ ...frozen, roles: [] }), /roles/],
  ['more instances than the maximum', withWorkers({ instances: 4 }), /job\.roles\.0\.maxInstances: is less than instances/],
  ['a role without ranks that may grow', withWorkers({ maxInstances: 4, kind: 'independent' }), /only a role of kind gang may grow/],
  ['two roles that may grow', withWorkers({ maxInstances: 4 }, { name: 'other', chief: false, maxInstances: 4 }), /only one role may grow/],
])('parseFrozenJob rejects %s', (_, text, message) => {
  expect(() => parseFrozenJob(text)).toThrow(expect.objectContaining({ code: 'JOB_INVALID', message: expect.stringMatching(message) }));
});

const withTensorBoard = (changes: Partial<Role>, serve = true): string => {
  const { job } = frozen;
  const tensorboard = { ...job.tensorboard, serve };
  return JSON.stringify({
    ...frozen,
    job: { ...job, tensorboard, roles: [...job.roles, { ...tensorBoardRole(tensorboard.resources), ...changes }] },
  });
};

// Final values of the site file do not apply to a spare role.
test.each<[string, Partial<Role>, boolean]>([
  ['another size', { resources: { memoryMb: 9999, vcores: 1, gpus: 0, other: {} } }, true],
  ['another command', { command: 'python3 mine.py' }, true],
  ['another environment', { env: { MINE: '1' } }, true],
  ['another name', { name: 'mine' }, true],
  ['no TensorBoard in the job', {}, false],
])('only the role that tony-ts adds for TensorBoard may be spare: %s', (_, changes, serve) => {
  expect(parseFrozenJob(withTensorBoard({})).job.roles.at(-1)?.spare).toBe(true);
  expect(() => parseFrozenJob(withTensorBoard(changes, serve))).toThrow(/job\.roles\.1\.spare: only the role/);
});
