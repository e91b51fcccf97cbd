import { expect, test } from 'vitest';
import { parseFrozenJob } from './frozen-job.ts';
import type { FrozenJob, Role } from './job.ts';
import { parseJob } from './load-job.ts';

const frozen: FrozenJob = {
  version: 1,
  applicationId: 'application_1795225023264_0001',
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
  resources: [{ name: 'tony', uri: 'hdfs://nn/x', type: 'archive', visibility: 'private', size: 1, timestamp: 2 }],
  roleResources: {},
  cluster: { kind: 'yarn', hadoop: { 'fs.defaultFS': 'hdfs://nn' } },
};

function withWorkers(...changes: Partial<Role>[]): string {
  return JSON.stringify({ ...frozen, job: { ...frozen.job, roles: changes.map((each) => ({ ...frozen.job.roles[0], ...each })) } });
}

test('reads back what was written', () => {
  expect(parseFrozenJob(JSON.stringify(frozen))).toEqual(frozen);
});

test.each([
  ['no JSON', '{', /is no JSON/],
  ['another version', JSON.stringify({ ...frozen, version: 2 }), /version/],
  ['a missing part', JSON.stringify({ ...frozen, job: { ...frozen.job, roles: [] } }), /job\.roles/],
  ['another thing', '[]', /job\.json/],
  ['more than most', withWorkers({ instances: 4 }), /job\.roles\.0\.maxInstances: is less than instances/],
  ['growth of those who have no rank', withWorkers({ maxInstances: 4, ranked: false }), /only a ranked role may grow/],
  ['growth of two roles', withWorkers({ maxInstances: 4 }, { maxInstances: 4 }), /only one role may grow/],
])('refuses %s', (_, text, message) => {
  expect(() => parseFrozenJob(text)).toThrow(expect.objectContaining({ code: 'JOB_INVALID', message: expect.stringMatching(message) }));
});
