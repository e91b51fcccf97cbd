import { expect, test } from 'vitest';
import { parseJob } from './resolve/load-job.ts';
import { checkedJob } from './resolve/resolved-job.ts';

const job = (text: string) => parseJob(`name: mnist\ncommand: node train.ts\n${text}\n`, { file: 'job.yaml', folder: '/jobs' });
const WORKER = 'roles: {worker: {}}';

test('files and archives of the job and of a role get absolute paths; the default visibility depends on the file', () => {
  const { files, roles } = job(`
files: {vocab.txt: data/vocab.txt, shared.bin: {path: 'hdfs:///shared/a b.bin', visibility: public}}
archives: {assets: assets/}
roles: {worker: {files: {.conf: {path: /etc/conf, visibility: application}}, archives: {model: 'hdfs://nn/m.zip'}}, evaluator: {}}`);
  expect(files).toEqual([
    { name: 'vocab.txt', type: 'file', path: '/jobs/data/vocab.txt', visibility: null },
    { name: 'shared.bin', type: 'file', path: 'hdfs:///shared/a b.bin', visibility: 'public' },
    { name: 'assets', type: 'archive', path: '/jobs/assets', visibility: null },
  ]);
  expect(roles.map((role) => role.files)).toEqual([
    [
      { name: '.conf', type: 'file', path: '/etc/conf', visibility: 'application' },
      { name: 'model', type: 'archive', path: 'hdfs://nn/m.zip', visibility: null },
    ],
    [],
  ]);
});

test.each([
  ['files: {a/b: x}', /files\.a\/b.*not a valid file name/],
  ['files: {"..": x}', /not a valid file name/],
  ['files: {"$(id)": x}', /not a valid file name/],
  ['files: {a: {path: x, shared: true}}', /shared/],
  ['files: {a: x}\narchives: {a: y.zip}', /archives\.a.*is also the name of files\.a/],
  ['files: {a: s3://bucket/a}', /NodeManagers cannot read s3 storage/],
  ['files: {a: file:///a}', /NodeManagers cannot read file storage/],
  ['files: {a: "hdfs:///$(id)"}', /cannot localise a path/],
  ['files: {a: {path: x, visibility: public}}', /only a file on HDFS can be public/],
])('rejects %s', (text, message) => {
  expect(() => job(`${text}\n${WORKER}`)).toThrow(message);
});

test('a role cannot reuse the name of a file of the job', () => {
  expect(() => job('files: {a: x}\nroles: {worker: {archives: {a: y.zip}}, evaluator: {}}')).toThrow(
    /roles\.worker\.archives\.a.*is also the name of files\.a/,
  );
  expect(job('roles: {worker: {files: {a: x}}, evaluator: {files: {a: y}}}').roles).toHaveLength(2);
});

test('a job that a program has changed obeys the same rules', () => {
  const good = job(WORKER);
  const file = { name: 'a', type: 'file', path: '/a', visibility: null } as const;
  expect(checkedJob({ ...good, files: [file] }).files).toEqual([file]);
  const [worker] = good.roles;
  const withRole = worker === undefined ? [] : [{ ...worker, files: [file] }];
  expect(() => checkedJob({ ...good, files: [file], roles: withRole })).toThrow('roles.0.files.0: a is the name of two files');
  expect(() => checkedJob({ ...good, files: [{ ...file, name: '../a' }] })).toThrow('not a valid file name');
  expect(() => checkedJob({ ...good, files: [{ ...file, visibility: 'public' }] })).toThrow('only a file on HDFS can be public');
});
