import { expect, test } from 'vitest';
import type { ProbedNode } from '../../../conf/node-probe.ts';
import { nodeFacts } from './node-facts.ts';
import { probeFindings } from './probe-findings.ts';

const SOUND = {
  user: ['alice'],
  machine: ['x86_64'],
  glibc: ['2.36'],
  runtimeGlibc: ['2.28'],
  runtime: ['v22.0.0'],
  cpuFlags: ['avx avx2 fma'],
  diskFreeKb: ['50000000'],
  shmKb: ['1000000'],
  ports: ['32768-60999'],
  python: ['python3 3.11.2 pip venv'],
  gpuDevices: ['0'],
};
const probed = (change: Partial<ProbedNode> = {}, facts: Readonly<Record<string, string[]>> = {}) =>
  nodeFacts({ node: 'n1:45454', notProbed: '', storage: '', tried: 1, unreached: [], ...change, facts: { ...SOUND, ...facts } });
const findings = (node: ReturnType<typeof probed>, gpus = 0) =>
  probeFindings([node], { user: 'alice', yarnGpus: new Map([['n1:45454', gpus]]) }).map(
    ({ name, state, message }) => `${state} ${name}: ${message}`,
  );

test('a healthy node has no problems', () => {
  expect(findings(probed())).toEqual(['ok probe: no problems on 1 node']);
});

test('each problem names the node and its cause', () => {
  expect(findings(probed({}, { glibc: ['2.17'], runtime: [''] }))).toEqual([
    'error runtime: the shipped Node.js does not start on n1:45454: the node has glibc 2.17, and the runtime needs 2.28',
  ]);
  expect(findings(probed({ unreached: [{ node: 'n2:45454', reason: 'connect ECONNREFUSED 10.0.0.2:40000' }] }))).toEqual([
    'error ports: n1:45454 cannot reach n2:45454 (connect ECONNREFUSED 10.0.0.2:40000)',
  ]);
  expect(findings(probed({ storage: 'HDFS did not answer within 15 s' }))).toEqual([
    'error HDFS on nodes: programs on n1:45454 cannot read HDFS: HDFS did not answer within 15 s',
  ]);
  expect(findings(probed({}, { cpuFlags: [''] }))).toEqual([
    "error processor: the processors of n1:45454 lack AVX, which TensorFlow's library needs",
  ]);
  expect(findings(probed(), 4)).toEqual(['warning GPUs: YARN schedules GPUs on n1:45454, but no NVIDIA driver is loaded there']);
  expect(findings(probed({}, { gpuDriver: ['550.54'], gpuDevices: ['4'] }), 4)).toEqual([
    'warning GPUs: a container without GPUs can open the GPUs of n1:45454: YARN does not isolate them',
  ]);
  expect(findings(probed({}, { user: ['yarn'] }))).toEqual(['warning container user: containers run as yarn instead of alice on n1:45454']);
});
