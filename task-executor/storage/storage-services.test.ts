import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { FrozenJob } from '../../conf/job.ts';
import { fileUri } from '../../storage/uri.ts';
import { serveStorage } from './storage-services.ts';

async function openServices() {
  const folder = await mkdtemp(path.join(tmpdir(), 'storage-services-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const at = (name: string) => path.join(folder, name);
  const frozen = {
    jobId: 'application_1_0001',
    user: 'alice',
    cluster: { kind: 'local', directory: folder },
    job: { checkpoint: { keep: 3 } },
    checkpointDir: fileUri(at('checkpoints')),
    outputDir: fileUri(at('output')),
    summaryDir: fileUri(at('summaries')),
    data: {},
  } as unknown as FrozenJob;
  const ask = async (service: string, body: string) => {
    const run = { generation: 1, notice: () => {} };
    const { signal } = new AbortController();
    const { head } = await serveStorage({ frozen, folder, s3: null }, run, service, Buffer.from(body), signal);
    return JSON.parse(Buffer.from(head).toString());
  };
  return { at, ask };
}

test('a local error has its own code and names the path', async () => {
  const { at, ask } = await openServices();
  const missing = at('missing');
  const code = async (service: string, question: object) => (await ask(service, JSON.stringify(question))).error;
  for (const [service, question, expected] of [
    ['storage.write', { uri: fileUri(at('copy')), path: missing }, 'NOT_FOUND'],
    ['storage.upload-output', { path: missing, name: 'model' }, 'NOT_FOUND'],
    ['storage.read', { uri: fileUri(missing), offset: 0, length: 1 }, 'NOT_FOUND'],
    ['storage.save-checkpoint', { path: missing, step: 1 }, 'CHECKPOINT_FAILED'],
  ] as const) {
    expect(await code(service, question)).toMatchObject({ code: expected, message: expect.stringContaining(missing) });
  }
  expect((await code('storage.write', { uri: fileUri(at('copy')), path: missing })).hint).toBe('Check the path.');
});

test('an output that contains a link, and a request that is not JSON, are invalid', async () => {
  const { at, ask } = await openServices();
  await mkdir(at('model'));
  await writeFile(at('model/weights'), 'x');
  await symlink('/etc/passwd', at('model/link'));
  const upload = JSON.stringify({ path: at('model'), name: 'model' });
  expect((await ask('storage.upload-output', upload)).error).toMatchObject({
    code: 'DATA_INVALID',
    message: expect.stringContaining('link is a symbolic link'),
  });
  expect((await ask('storage.stat', '{')).error).toMatchObject({
    code: 'DATA_INVALID',
    message: 'the request for storage.stat is invalid',
  });
});

test('the result of a trial becomes an event file with its row for TensorBoard', async () => {
  const { at, ask } = await openServices();
  const trial = {
    name: 'trial-00003',
    configuration: { rate: 0.1, kind: 'wide', bias: true },
    metrics: { loss: 0.5, spread: 'NaN' },
    metric: 'loss',
    succeeded: true,
  };
  expect(await ask('storage.write-trial', JSON.stringify(trial))).toEqual({ answer: null });
  const run = at('summaries/trial-00003/result');
  const [name = ''] = await readdir(run);
  const content = await readFile(path.join(run, name), 'latin1');
  const tags = ['_hparams_/experiment', '_hparams_/session_start_info', 'spread', '_hparams_/session_end_info'];
  expect([...content.matchAll(new RegExp(tags.join('|'), 'g'))].map(([tag]) => tag)).toEqual(tags);
  for (const changes of [{ name: '../trial-00003' }, { metrics: { loss: '0.5' } }, { configuration: { layers: [1] } }]) {
    expect(await ask('storage.write-trial', JSON.stringify({ ...trial, ...changes }))).toMatchObject({ error: { code: 'DATA_INVALID' } });
  }
});
