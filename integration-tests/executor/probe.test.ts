import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import { expect, onTestFinished, test, vi } from 'vitest';
import { ProbeLedger } from '../../application-master/probe/probe-ledger.ts';
import { ProbeService } from '../../application-master/probe/probe-service.ts';
import { containerProof } from '../../application-master/rpc/executor-service.ts';
import { createJobSecrets } from '../../client/job/job-secrets.ts';
import { CREDENTIALS } from '../../conf/job.ts';
import type { ProbeOrder } from '../../conf/node-probe.ts';
import { encodeCredentials } from '../../hadoop/rpc/credentials.ts';
import { Secret } from '../../platform/secret.ts';
import { fileUri } from '../../storage/uri.ts';
import { probeNode } from '../../task-executor/probe/probe-node.ts';

const secrets = createJobSecrets(Date.now(), '{}');
const secretOf = (name: string): Secret => secrets.get(name) ?? new Secret(Buffer.alloc(0));
const [certificate, privateKey, jobSecret] = [CREDENTIALS.certificate, CREDENTIALS.privateKey, CREDENTIALS.jobSecret].map(secretOf) as [
  Secret,
  Secret,
  Secret,
];

async function probe(...names: string[]): Promise<{ ledger: ProbeLedger; service: ProbeService; port: number }> {
  const ledger = new ProbeLedger(names.map((name) => ({ node: `${name}:45454`, host: '127.0.0.1', rack: '/default-rack', label: null })));
  for (const name of names) {
    ledger.allocated(`container-${name}`, `${name}:45454`);
  }
  const service = new ProbeService(ledger, { certificate, privateKey, jobSecret, log: pino({ level: 'silent' }) });
  onTestFinished(() => service.close());
  return { ledger, service, port: await service.listen('127.0.0.1') };
}

/** Runs a container as probe.sh does. `staging` is the folder from which the container reads job.json. */
async function container(name: string, port: number, { proofFor = `container-${name}`, staged = true } = {}): Promise<number> {
  const folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-test-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const staging = path.join(folder, 'staging');
  const order: ProbeOrder = {
    ...{ version: 1, jobId: 'application_1_0001', user: 'alice', staging: fileUri(staging), submittedAt: 0, cacheEntries: [] },
    ...{ cluster: { kind: 'yarn', hadoop: {} }, resources: [], nodes: [], timeoutMs: 1000 },
  };
  await mkdir(staging);
  await writeFile(path.join(folder, 'job.json'), JSON.stringify(order));
  await writeFile(path.join(staged ? staging : folder, 'job.json'), JSON.stringify(order));
  await writeFile(path.join(folder, 'facts'), `tony-probe glibc=2.36\ntony-probe os=${name}\n`);
  const own = new Map([
    [CREDENTIALS.certificate, certificate],
    [CREDENTIALS.privateKey, privateKey],
    [CREDENTIALS.containerProof, new Secret(containerProof(jobSecret, proofFor))],
  ]);
  await writeFile(path.join(folder, 'tokens'), encodeCredentials({ tokens: [], secrets: own }));
  const environment = {
    CONTAINER_ID: `container-${name}`,
    TONY_MASTER: `127.0.0.1:${port}`,
    HADOOP_TOKEN_FILE_LOCATION: path.join(folder, 'tokens'),
  };
  return probeNode(environment, folder);
}

function silence(): () => string {
  const written = vi.spyOn(process.stderr, 'write').mockImplementation(() => true);
  onTestFinished(() => written.mockRestore());
  return () => written.mock.calls.map(([text]) => String(text)).join('');
}

test('containers report facts, read the storage, connect to each other, and stay until the probe ends', async () => {
  const { ledger, service, port } = await probe('a', 'b');
  const exits = Promise.all([container('a', port), container('b', port, { staged: false })]);
  await expect.poll(() => ledger.hasAllFacts).toBe(true);
  service.connectNodes();
  await expect.poll(() => ledger.hasAllReached).toBe(true);
  expect(ledger.nodes(1000)).toEqual([
    { node: 'a:45454', notProbed: '', facts: { glibc: ['2.36'], os: ['a'] }, storage: '', tried: 1, unreached: [] },
    {
      ...{ node: 'b:45454', notProbed: '', facts: { glibc: ['2.36'], os: ['b'] }, tried: 1, unreached: [] },
      storage: expect.stringContaining('no such file or directory'),
    },
  ]);
  service.end();
  expect(await exits).toEqual([0, 0]);
});

test('a container reports which nodes do not accept its connection', async () => {
  const { ledger, service, port } = await probe('a', 'gone');
  // No program listens on port 1.
  ledger.facts('container-gone', { facts: '', port: 1, storage: '' });
  const exit = container('a', port);
  await expect.poll(() => ledger.hasAllFacts).toBe(true);
  service.connectNodes();
  await expect.poll(() => ledger.nodes(1000)[0]?.unreached).toEqual([{ node: 'gone:45454', reason: 'connect ECONNREFUSED 127.0.0.1:1' }]);
  service.end();
  expect(await exit).toBe(0);
});

test('a container that cannot report says why in its stderr, from which YARN takes its diagnostics', async () => {
  const stderr = silence();
  const { ledger, service, port } = await probe('a', 'b');
  expect(await container('a', port, { proofFor: 'container-b' })).toBe(1);
  expect(stderr()).toBe(`The ApplicationMaster at 127.0.0.1:${port} did not answer: the executor has no valid proof of its container\n`);
  expect(await container('stranger', port)).toBe(1);
  expect(stderr()).toContain('this container is no longer part of the job');
  expect(ledger.nodes(1000).map(({ facts }) => facts)).toEqual([{}, {}]);
  service.close();
  expect(await container('b', port)).toBe(1);
  expect(stderr()).toMatch(new RegExp(`The ApplicationMaster at 127.0.0.1:${port} did not answer: .*ECONNREFUSED`));
});
