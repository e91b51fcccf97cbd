import { expect, test } from 'vitest';
import { parseFrozenJob } from './frozen-job.ts';
import type { FrozenJob } from './job.ts';
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

test('reads back what was written', () => {
  expect(parseFrozenJob(JSON.stringify(frozen))).toEqual(frozen);
});

test.each([
  ['no JSON', '{', /is no JSON/],
  ['another version', JSON.stringify({ ...frozen, version: 2 }), /version/],
  ['a missing part', JSON.stringify({ ...frozen, job: { ...frozen.job, roles: [] } }), /job\.roles/],
  ['another thing', '[]', /job\.json/],
])('refuses %s', (_, text, message) => {
  expect(() => parseFrozenJob(text)).toThrow(expect.objectContaining({ code: 'JOB_INVALID', message: expect.stringMatching(message) }));
});
