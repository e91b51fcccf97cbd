import { expect, test } from 'vitest';
import { parseFrozenJob } from '../../conf/resolve/frozen-job.ts';
import { parseJob } from '../../conf/resolve/load-job.ts';
import { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { freezeJob } from './freeze-job.ts';

const HOME = 'hdfs://nn:8020/user/alice';

test('freezeJob returns a job with resolved folders that parseFrozenJob reads back unchanged', () => {
  const job = parseJob('name: mnist\ncommand: node train.ts\nroles: {worker: {}}\ncheckpoint: {dir: ckpt}\n', {
    file: 'job.yaml',
    folder: '/x',
    set: [],
  });
  const frozen = freezeJob(job, {
    jobId: 'application_1_0001',
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

test('job.json lists the file systems and cache entries that the job names in any value, also within commands and variables', () => {
  const hash = (digit: string) => digit.repeat(64);
  const text = `name: mnist
env: {INPUTS: "hdfs://ns1/a,hdfs://ns2/cache/${hash('a')}/a"}
data: {numbers: "webhdfs://ns3:9870/numbers"}
checkpoint: {dir: "hdfs://ns4/checkpoints"}
roles: {worker: {command: "cat 'hdfs://ns5/x' cache/${hash('b')}/words && echo ${hash('c')}0", env: {MODEL: "hdfs://ns6"}}}
`;
  const frozen = freezeJob(parseJob(text, { file: 'job.yaml', folder: '/x', set: [] }), {
    jobId: 'application_1_0001',
    user: 'alice',
    submittedAt: 1,
    root: `${HOME}/.tony-ts`,
    home: HOME,
    data: { numbers: 'webhdfs://ns3:9870/numbers' },
    files: {},
    resources: [
      { name: 'tony', uri: `${HOME}/.tony-ts/cache/${hash('d')}/t`, type: 'archive', visibility: 'private', size: 1, timestamp: 2 },
    ],
    cluster: { kind: 'yarn', hadoop: {} },
    configuration: HadoopConfiguration.fromProperties({ 'fs.defaultFS': 'hdfs://nn:8020' }),
  });
  expect([...frozen.fileSystems].sort()).toEqual([
    ...['ns1', 'ns2', 'ns4', 'ns5', 'ns6', 'nn:8020'].map((authority) => `hdfs://${authority}`).sort(),
    'webhdfs://ns3:9870',
  ]);
  expect([...frozen.cacheEntries].sort()).toEqual(['a', 'b', 'd'].map(hash));
});
