import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openHistoryStore } from '../history/open-store.ts';
import { listJobs } from '../listing/list-jobs.ts';
import { loadJob } from '../submit/load-job-file.ts';
import { planJob, submit } from '../submit/submit.ts';

const env = { HOME: '/nowhere' };

async function jobFile(): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-test-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const file = path.join(folder, 'job.yaml');
  await writeFile(file, 'name: a\nframework: none\nroles: {worker: {command: "true"}}\n');
  return file;
}

test('without a cluster, loadJob reads no site file', async () => {
  expect(await loadJob(await jobFile(), { env })).toMatchObject({ name: 'a' });
});

test('a wrong HADOOP_CONF_DIR is an error of loadJob, because its site file may have limits', async () => {
  const load = loadJob(await jobFile(), { env: { ...env, HADOOP_CONF_DIR: '/nowhere/at/all' } });
  await expect(load).rejects.toMatchObject({ code: 'HADOOP_CONF_NOT_FOUND' });
});

test.each<[string, (file: string) => Promise<unknown>]>([
  ['submit', (file) => submit(file, { env })],
  ['planJob', async (file) => planJob(await loadJob(file, { env }), { env })],
  ['listJobs', () => listJobs({ env })],
  ['openHistoryStore', () => openHistoryStore({ env, local: false })],
])('without a cluster, the hint of %s names the option local', async (_, call) => {
  await expect(call(await jobFile())).rejects.toMatchObject({
    code: 'HADOOP_CONF_NOT_FOUND',
    hint: expect.stringContaining('{ local: true }'),
  });
});
