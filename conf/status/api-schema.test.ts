import { readFile, writeFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { yarnApplication } from '../../hadoop/yarn/application.fixture.ts';
import { TonyError } from '../../platform/errors.ts';
import { apiObject, errorObject, withMilliseconds } from './api-object.ts';
import { apiJsonSchema, apiSchema } from './api-schema.ts';
import { listedJob, unreportedJob, yarnReport } from './job-info.ts';
import { orphanedContainer, reportedJob, taskFailure, taskStatus } from './job-status.fixture.ts';

const FILE = new URL('../../docs/api.schema.json', import.meta.url);

test('docs/api.schema.json equals the generated schema (UPDATE=1 rewrites it)', async () => {
  const wanted = `${JSON.stringify(apiJsonSchema(), null, 2)}\n`;
  if (process.env.UPDATE === '1') {
    await writeFile(FILE, wanted);
  }
  expect(JSON.parse(await readFile(FILE, 'utf8'))).toEqual(JSON.parse(wanted));
});

const failed = taskStatus({ state: 'failed', failure: taskFailure(), exit: { code: 3, signal: null } });
const busy = taskStatus({ usage: { memoryBytes: 1, cpuCores: 1, gpus: [], stopped: false }, waitsFor: [{ role: 'ps', state: 'running' }] });

test.each([
  ['a running job', apiObject('Job', reportedJob({ tasks: [failed, busy], orphanedContainers: [orphanedContainer()], progress: 0.5 }))],
  ['a listed job', apiObject('Job', listedJob(reportedJob({}, { yarn: yarnReport(yarnApplication()) })))],
  ['a job before its first report', apiObject('Job', unreportedJob({ id: 'local_1_0001', state: 'starting' }))],
  ['an event', apiObject('JobEvent', { at: 5, type: 'job-finished', state: 'failed', message: 'x' })],
  ['an error', errorObject(new TonyError('USAGE', 'x'))],
])('the schema accepts %s', (_, object) => {
  expect(apiSchema.safeParse(JSON.parse(JSON.stringify(object))).error?.issues ?? []).toEqual([]);
});

test.each([
  ['an unknown field of a job', { ...apiObject('Job', reportedJob()), phase: 'RUNNING' }],
  ["YARN's state as the state of a job", { ...apiObject('Job', reportedJob()), state: 'ACCEPTED' }],
  ['a time in milliseconds', { ...apiObject('Job', reportedJob()), createdAt: 5 }],
  ['an object without a version', { kind: 'Notice', message: 'x' }],
  ['an unknown kind', { apiVersion: 'tony-ts/v1', kind: 'Thing' }],
])('the schema rejects %s', (_, object) => {
  expect(apiSchema.safeParse(object).success).toBe(false);
});

test('memory is sent in bytes, also as a range, but a role may have any name', () => {
  const sent = apiObject('Quotas', { memory: 2, total: { memory: { min: 1, max: 3 } }, roles: { memory: { task: { memory: 4 } } } });
  const [one, three] = [1 << 20, 3 << 20];
  expect(sent).toMatchObject({
    memoryBytes: 2 << 20,
    total: { memoryBytes: { min: one, max: three } },
    roles: { memory: { task: { memoryBytes: 4 << 20 } } },
  });
});

test('times are converted to RFC 3339 and back, but not values that users name', () => {
  const value = { at: 1_795_269_824_000, finishedAt: null, metrics: { lookedAt: 7 }, jobs: [{ createdAt: 0 }] };
  const sent = apiObject('JobList', value);
  expect(sent).toMatchObject({
    at: '2026-11-21T14:03:44.000Z',
    metrics: { lookedAt: 7 },
    jobs: [{ createdAt: '1970-01-01T00:00:00.000Z' }],
  });
  expect(withMilliseconds(sent)).toMatchObject(value);
  // A damaged file may contain any number.
  expect(apiObject('JobEvent', { at: 1e300 })).toMatchObject({ at: null });
});
