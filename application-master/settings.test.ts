import { createHash } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { frozen, workers } from '../conf/job.fixture.ts';
import { CREDENTIALS, type FrozenJob } from '../conf/job.ts';
import { encodeCredentials, MASTER_TOKEN_KIND } from '../hadoop/rpc/credentials.ts';
import { Secret } from '../platform/secret.ts';
import { readSettings } from './settings.ts';

const JOB: FrozenJob = { ...frozen({ roles: [workers({ instances: 2 })] }), user: 'alice' };
const TOKEN = { identifier: new Uint8Array([1]), password: new Secret(new Uint8Array([2])), kind: MASTER_TOKEN_KIND, service: '' };
const ENVIRONMENT = { CONTAINER_ID: 'container_1_0001_02_000001', NM_HOST: 'node1', NM_HTTP_PORT: '8042', USER: 'alice' };

/** Creates a container's folder. The credentials belong to a submission with `submitted` as its job.json. */
async function settings(localised: FrozenJob, { submitted = localised, byYarn = true } = {}) {
  const folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-test-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const secret = (value: string): Secret => new Secret(Buffer.from(value));
  const tokens = byYarn ? [{ alias: '', token: TOKEN }] : [];
  const secrets = new Map([
    [CREDENTIALS.jobSecret, secret('s')],
    [CREDENTIALS.certificate, secret('c')],
    [CREDENTIALS.privateKey, secret('k')],
    [CREDENTIALS.jobDigest, new Secret(createHash('sha256').update(JSON.stringify(submitted)).digest())],
  ]);
  await writeFile(path.join(folder, 'tokens'), encodeCredentials({ tokens, secrets }));
  await writeFile(path.join(folder, 'job.json'), JSON.stringify(localised));
  return await readSettings({ ...ENVIRONMENT, HADOOP_TOKEN_FILE_LOCATION: path.join(folder, 'tokens') }, folder);
}

test('reads the submitted job, and the user for whom YARN runs it', async () => {
  expect(await settings(JOB)).toMatchObject({
    frozen: JOB,
    attempt: 2,
    node: { jobId: 'application_1_0001', user: 'alice', httpPort: 8042 },
  });
});

test('rejects a job.json that was replaced after the submission', async () => {
  const larger = { ...JOB, job: { ...JOB.job, roles: [workers({ instances: 50, maxInstances: 50 })] } };
  await expect(settings(larger, { submitted: JOB })).rejects.toMatchObject({
    code: 'JOB_INVALID',
    message: expect.stringContaining('not the submitted file'),
  });
});

test('rejects a local job under YARN, because a local job would bypass the quotas', async () => {
  const local: FrozenJob = { ...JOB, cluster: { kind: 'local', directory: '/tmp/containers' } };
  await expect(settings(local)).rejects.toMatchObject({ code: 'JOB_INVALID', message: expect.stringContaining('cluster.kind local') });
  expect((await settings(local, { byYarn: false })).frozen.cluster.kind).toBe('local');
});
