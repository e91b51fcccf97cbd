import { expect, test } from 'vitest';
import { parseJob } from '../../conf/resolve/load-job.ts';
import { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { jobNotes, type NotedParts } from './job-notes.ts';

const RUNTIMES = 'yarn.nodemanager.runtime.linux.allowed-runtimes';
const KEYTAB = 'kerberos: {keytab: /home/alice/alice.keytab}';
const cluster = (runtimes: string) => HadoopConfiguration.fromProperties({ [RUNTIMES]: runtimes });

const sourceOf = (files: readonly string[], withheld: readonly string[] = []) => ({
  entries: files.map((path) => ({ type: 'file' as const, path, size: 1, executable: false })),
  withheld,
});

function notes(yaml: string, parts: Partial<NotedParts> = {}): string[] {
  const job = parseJob(`name: a\ncommand: node a.ts\n${yaml}`, { file: 'job.yaml', folder: '/nowhere' });
  return jobNotes(job, { source: sourceOf(['a.ts']), configuration: cluster('default'), keytab: null, keytabProblem: null, ...parts });
}

test('a note lists the first excluded files, and states how to include one', () => {
  expect(notes('roles: {worker: {}}', { source: sourceOf(['a.ts'], ['.env', 'keys/id_rsa']) })).toEqual([
    'Not uploaded because the names suggest that these files contain secrets: .env, keys/id_rsa. To include .env, add the line !.env to .tonyignore.',
  ]);
  expect(
    notes('roles: {worker: {}}', { source: sourceOf(['a.ts'], ['a.key', 'b.key', 'c.key', 'd.key', 'e.key', 'f.key', 'g.key']) })[0],
  ).toContain('d.key, e.key and 2 more. To include a.key, add the line !a.key');
});

test('a note names the largest entry of a large source folder', () => {
  const file = (path: string, size: number) => ({ type: 'file', path, size, executable: false }) as const;
  const entries = [file('a.ts', 100), file('data/a', 80e6), file('data/b', 90e6), file('old.bin', 100e6)];
  expect(notes('roles: {worker: {}}', { source: { entries, withheld: [] } })).toEqual([
    'The source folder contains 270.0 MB, of which 170.0 MB are in data/. Each task copies this folder when it starts. To exclude data/, add the line /data/ to .tonyignore. To pass input data to programs, use data in job.yaml.',
  ]);
  expect(notes('roles: {worker: {}}', { source: { entries: [file('a.ts', 99e6)], withheld: [] } })).toEqual([]);
});

test('a note says that `gpus` requests GPUs if a role requests them under the name of another system', () => {
  expect(notes('roles: {worker: {resources: {nvidia.com/gpu: 1}}}')).toEqual([
    "roles.worker requests nvidia.com/gpu, which is the name of GPUs in Kubernetes. To request YARN's GPUs (yarn.io/gpu), and to assign them to the program, write `gpus` instead.",
  ]);
  expect(notes('roles: {worker: {resources: {gpus: 1, yarn.io/fpga: 1}}}')).toEqual([]);
});

test('a note names each place that sets PATH, and no other variable', () => {
  expect(notes('env: {PATH_TO: x}\nroles: {worker: {env: {A: b}}}')).toEqual([]);
  expect(notes('env: {PATH: /opt/bin}\nroles: {worker: {}, evaluator: {env: {PATH: /usr/bin}}}')).toEqual([
    'env and roles.evaluator.env replace the whole PATH. The shell finds commands such as node only in the folders on the new PATH.',
  ]);
});

test('a note names the containers whose image this machine or the cluster ignores', () => {
  const images = 'roles: {worker: {docker: {image: a}}, evaluator: {}}\nmaster: {docker: {image: a}}';
  const where = 'the ApplicationMaster and worker set docker';
  expect(notes(images, { configuration: null })).toEqual([`${where}; a local job runs directly on this machine instead.`]);
  expect(notes(images)).toEqual([
    `${where}, but ${RUNTIMES} in yarn-site.xml does not list docker: nodes with this setting ignore the image.`,
  ]);
  expect(notes(images, { configuration: cluster('default, docker') })).toEqual([]);
});

test('a note reports a keytab that other users can read, and a keytab without Kerberos', () => {
  const job = `roles: {worker: {}}\n${KEYTAB}`;
  expect(notes(job, { keytab: { isExposed: false } })).toEqual([]);
  expect(notes(job, { keytab: { isExposed: true } })).toEqual([
    'Other users of this machine can read /home/alice/alice.keytab: run chmod 600 /home/alice/alice.keytab.',
  ]);
  expect(notes(job)).toEqual([expect.stringMatching(/^kerberos has no effect here.*uploaded\.$/)]);
  expect(notes(job, { keytabProblem: 'The keytab x cannot be read: no such file.' })).toEqual([
    expect.stringMatching(/uploaded\. A cluster with Kerberos would need it: The keytab x cannot be read: no such file\.$/),
  ]);
});
