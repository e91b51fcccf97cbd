import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ensureRuntime } from '../client/runtime/ensure-runtime.ts';
import { parseManifest } from '../contract/checkpoint/checkpoint-format.ts';
import { programEnvironment } from '../contract/process/program-environment.ts';
import { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { createStorage } from '../storage/create-storage.ts';
import { readIfStored } from '../storage/read-if-stored.ts';
import { s3Finder } from '../storage/s3/find-s3-connection.ts';
import type { Storage } from '../storage/storage.ts';
import { ROOT } from './command.ts';
import { execute } from './execute.ts';
import { expectSeen, FSSPEC_PROGRAM, fsspecRole } from './fsspec-files.ts';
import { jsonLines, temporaryFolder, USER, useCluster } from './harness.ts';
import { useObjectStore } from './s3/object-store.ts';

/** A job on YARN that reads data from an object store, and writes checkpoints and an export to it. A Python program uses files there. */

const cluster = useCluster();
const store = useObjectStore();
const PROGRAM = path.join(ROOT, 'integration-tests', 'programs', 'fit-from-s3.mjs');

let storage: Storage;
beforeAll(() => {
  storage = createStorage({ hadoop: null, user: 'alice', s3: async () => store().connection });
});
afterAll(() => storage.close());

interface Report {
  readonly weights: readonly (readonly number[])[];
  readonly steps: readonly number[];
  readonly variables: readonly string[];
}

async function reportIn(folder: string): Promise<Report> {
  return JSON.parse((await storage.read(`${folder}/report.json`)).toString()) as Report;
}

async function namesIn(folder: string): Promise<string[]> {
  return (await storage.list(folder)).map(({ name }) => name);
}

/** Stores a secret in a credential provider with the program that `hadoop credential create` runs. */
async function createCredential(alias: string, value: string, provider: string): Promise<void> {
  const words = ['create', alias, '-value', value, '-provider', provider];
  const main = 'org.apache.hadoop.security.alias.CredentialShell';
  await cluster.runProgram({ main, configuration: 'client', args: words, exitCodes: [0], log: 'credential' });
}

test('the access key comes from a credential provider on HDFS, with the password that Hadoop uses', async () => {
  const { bucket, environment } = store();
  const file = `/user/${USER}/keys.jceks`;
  const provider = `jceks://hdfs@localhost:${cluster.ports.namenode.rpc}${file}`;
  await createCredential('fs.s3a.access.key', environment.AWS_ACCESS_KEY_ID ?? '', provider);
  await createCredential(`fs.s3a.bucket.${bucket}.secret.key`, environment.AWS_SECRET_ACCESS_KEY ?? '', provider);
  const configuration = (await HadoopConfiguration.fromEnvironment(cluster.environment())).with({
    'fs.s3a.endpoint': environment.AWS_ENDPOINT_URL ?? '',
    'hadoop.security.credential.provider.path': provider.replace('hdfs@', 'webhdfs@').replace(/:\d+/, `:${cluster.ports.namenode.http}`),
    'fs.s3a.security.credential.provider.path': `jceks://hdfs/user/${USER}/missing.jceks`,
  });
  const hdfs = createStorage({ hadoop: configuration, user: USER });
  const readHdfs = (uri: string) => readIfStored(hdfs, uri);
  const sources = { environment: { AWS_SHARED_CREDENTIALS_FILE: '/nonexistent' }, hadoop: { configuration, readHdfs } };
  await expect(s3Finder(sources)(bucket)).rejects.toMatchObject({
    code: 'S3_CREDENTIALS_NOT_FOUND',
    message: expect.stringContaining('Permission denied'),
  });
  await cluster.hdfsGive(file, USER);
  const withKeys = createStorage({ hadoop: configuration, user: USER, s3: s3Finder(sources) });
  await withKeys.write(`s3://${bucket}/from-provider`, Buffer.from('signed'));
  expect((await storage.read(`s3://${bucket}/from-provider`)).toString()).toBe('signed');
  withKeys.close();
  hdfs.close();
});

test('a job trains on s3:// and resumes from its checkpoint there, with the same weights as an uninterrupted program', async () => {
  const root = `s3://${store().bucket}`;
  const lines = Array.from({ length: 200 }, (_, index) => {
    const xs = [Math.sin(index), Math.cos(index), (index % 7) / 7];
    return `${JSON.stringify({ xs, ys: xs.reduce((sum, x) => sum + x, 0.5) })}\n`;
  });
  await storage.write(`${root}/lines/all.jsonl`, Buffer.from(lines.join('')));
  const folder = await temporaryFolder();
  const source = path.join(folder, 'source');
  await mkdir(source);
  await copyFile(PROGRAM, path.join(source, 'fit.mjs'));
  await copyFile(FSSPEC_PROGRAM, path.join(source, path.basename(FSSPEC_PROGRAM)));
  await writeFile(
    path.join(folder, 'job.yaml'),
    `name: from-s3
source: source
data: {lines: 's3a://${store().bucket}/lines'}
roles:
  worker: {command: 'node fit.mjs ${root}/lines ${root}/job 30', resources: {memory: 1g}}
  files: ${await fsspecRole(`s3a://${store().bucket}/files`)}
master: {resources: {memory: 512m}}
checkpoint: {dir: '${root}/job/checkpoints', everySteps: 20}
`,
  );
  const words = ['submit', '--conf', path.join(folder, 'job.yaml'), '--output', 'json'];
  const refused = await cluster.run(words, { env: { AWS_SHARED_CREDENTIALS_FILE: '/nonexistent', AWS_CONFIG_FILE: '/nonexistent' } });
  expect(refused).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('No access key for s3:// URIs') });

  const { stdout, stderr, exitCode } = await cluster.run(words, { env: store().environment });
  expect(exitCode, `${stdout}${stderr}`).toBe(0);
  const { id: applicationId } = jsonLines(stdout).at(-1) as { id: string };
  await expectSeen(storage, `${root}/files`);
  const inJob = await reportIn(`${root}/job`);
  // 200 records in batches of 10 for 3 epochs; the second generation resumes after step 20.
  expect(inJob.steps).toEqual(Array.from({ length: 40 }, (_, index) => index + 21));
  expect(inJob.variables).toEqual([]);
  const manifest = parseManifest(await storage.read(`${root}/job/checkpoints/step-60/manifest.json`), 'step-60');
  expect(manifest).toMatchObject({ jobId: applicationId, generation: 2, position: { step: 60, final: true } });

  const { tree } = await ensureRuntime(() => {});
  const { PATH, HOME } = process.env;
  const env = { PATH, HOME, ...store().environment, ...programEnvironment(path.join(ROOT, 'dist', 'container'), tree, { PATH, HOME }) };
  await execute(path.join(tree, 'bin', 'node'), [PROGRAM, `${root}/lines`, `${root}/alone`], {
    env,
  });
  const alone = await reportIn(`${root}/alone`);
  expect(alone.steps).toHaveLength(60);
  expect(inJob.weights).toEqual(alone.weights);
  expect(await namesIn(`${root}/alone/model`)).toContain('model.json');
  expect((await namesIn(`${root}/alone/summaries`)).length).toBeGreaterThan(0);
  expect(await storage.read(`${root}/job/model/model.json`)).toEqual(await storage.read(`${root}/alone/model/model.json`));
});
