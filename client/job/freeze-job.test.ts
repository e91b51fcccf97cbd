import { expect, test } from 'vitest';
import { parseFrozenJob } from '../../conf/resolve/frozen-job.ts';
import { parseJob } from '../../conf/resolve/load-job.ts';
import { freezeJob } from './freeze-job.ts';

const HOME = 'hdfs://nn:8020/user/alice';

test('freezeJob returns a job with resolved folders that parseFrozenJob reads back unchanged', () => {
  const job = parseJob('name: mnist\ncommand: node train.ts\nroles: {worker: {}}\ncheckpoint: {dir: ckpt}\n', {
    file: 'job.yaml',
    folder: '/x',
    set: [],
  });
  const frozen = freezeJob(job, {
    applicationId: 'application_1_0001',
    user: 'alice',
    submittedAt: 1,
    root: `${HOME}/.tony-ts`,
    home: HOME,
    data: { mnist: 'hdfs://nn:8020/data' },
    files: {},
    resources: [{ name: 'tony', uri: 'hdfs://nn:8020/t', type: 'archive', visibility: 'private', size: 1, timestamp: 2 }],
    cluster: { kind: 'yarn', hadoop: { 'fs.defaultFS': 'hdfs://nn:8020' } },
  });
  expect(frozen).toMatchObject({
    staging: `${HOME}/.tony-ts/jobs/application_1_0001`,
    history: `${HOME}/.tony-ts/history/application_1_0001`,
    checkpointDir: `${HOME}/ckpt`,
    summaryDir: `${HOME}/.tony-ts/history/application_1_0001/summaries`,
    outputDir: `${HOME}/.tony-ts/output/application_1_0001`,
  });
  expect(parseFrozenJob(JSON.stringify(frozen))).toEqual(frozen);
});
