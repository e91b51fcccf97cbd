import { expect, test } from 'vitest';
import { unreportedJob, type YarnReport } from '../../../conf/status/job-info.ts';
import { TonyError } from '../../../platform/errors.ts';
import { FileStorage } from '../../../storage/file-storage.ts';
import type { JobConnection } from '../job-connection.ts';
import { describeJob } from './describe-job.ts';

const ID = 'application_1700000000000_0001';
const yarn = {
  jobId: ID,
  name: 'mnist',
  user: 'alice',
  queue: 'root.gpu',
  state: 'RUNNING',
  startedAt: 5,
  attempts: [],
} as unknown as YarnReport;

function connection(failure: TonyError): JobConnection {
  const fails = () => Promise.reject(failure);
  return {
    id: ID,
    trackingUrl: 'http://rm/proxy/1/',
    records: {
      storage: new FileStorage(),
      user: 'alice',
      place: fails,
      staged: () => 'hdfs://nn/staged',
      ask: async () => null,
      yarn: async () => yarn,
      logs: fails,
      mayRead: async () => true,
    },
    observe: async () => unreportedJob({ id: ID, state: 'running', message: 'The job is starting.' }),
    pages: async () => 'http://rm/proxy/1/',
  } as unknown as JobConnection;
}

test.each(['HDFS_UNREACHABLE', 'S3_UNREACHABLE'] as const)(
  'without its files (%s), a description contains what YARN knows',
  async (code) => {
    const described = await describeJob(connection(new TonyError(code, 'No server answers.')));
    expect(described).toMatchObject({
      name: 'mnist',
      user: 'alice',
      queue: 'gpu',
      state: 'running',
      createdAt: 5,
      message: 'The job is starting.',
    });
    expect(described.unreadable).toMatch(/^The history, .* could not be read\. No server answers\.$/);
  },
);

test('an unreachable ResourceManager is an error', async () => {
  await expect(describeJob(connection(new TonyError('RM_UNREACHABLE', 'No server answers.')))).rejects.toMatchObject({
    code: 'RM_UNREACHABLE',
  });
});
