import { expect, test } from 'vitest';
import { parseJob } from './resolve/load-job.ts';

const messageOf = (text: string): string => {
  try {
    parseJob(text, { file: 'job.yaml', folder: '/nowhere' });
  } catch (error) {
    return (error as Error).message;
  }
  return '';
};
const atTop = (line: string): string => messageOf(`name: a\n${line}\nroles: {worker: {command: x}}\n`);
const inRole = (key: string): string => messageOf(`name: a\nroles: {worker: {command: x, ${key}}}\n`);

test.each([
  ['gpus: 1', 'did you mean `roles.ROLE.resources.gpus`?'],
  ['instances: 2', 'did you mean `roles.ROLE.instances`?'],
  ['requirements: [numpy]', 'did you mean `python.requirements`?'],
  ['memory: 2g', '`roles.ROLE.resources.memory`'],
  ['max_restarts: 2', '`maxRestarts`|under `restart`|restart.maxRestarts'],
])('a key at the top level that belongs elsewhere: %s', (line, message) => {
  expect(atTop(line)).toMatch(new RegExp(message.replaceAll('?', '\\?')));
  expect(atTop(line)).not.toContain('(known:');
});

test.each([
  ['role: {worker: {command: x}}', 'role: is not a known key; did you mean `roles`?'],
  ['envs: {A: b}', 'envs: is not a known key; did you mean `env`?'],
  ['checkpiont: {everySteps: 2}', 'checkpiont: is not a known key; did you mean `checkpoint`?'],
])('a key that is misspelt in one letter means the key beside it, not one of the same name elsewhere: %s', (line, message) => {
  expect(atTop(line)).toContain(message);
});

test.each([
  ['worker: {instances: 2}', 'worker: is not a known key; did you mean `roles.worker`?'],
  ['workers: {instances: 2, comand: y}', 'workers: is not a known key; did you mean `roles.workers`?'],
])('a mapping with keys of a role means a role: %s', (line, message) => {
  expect(atTop(line)).toContain(message);
});

test.each(['worker: 3', 'worker: {a: b}', 'worker: {}'])('a value without keys of a role means no role: %s', (line) => {
  expect(atTop(line)).not.toContain('roles.worker');
});

test.each([
  ['gpus: 1', 'roles.worker.gpus: is not a known key; did you mean `roles.worker.resources.gpus`?'],
  ['memory: 2g', 'did you mean `roles.worker.resources.memory`?'],
  ['processesPerTask: 2', 'did you mean `processesPerTask` at the top level?'],
])('a key of a role that belongs elsewhere: %s', (key, message) => {
  expect(inRole(key)).toContain(message);
});

test.each([
  ['workers: 2', 'write `roles.ROLE.instances`'],
  ['num_workers: 2', 'write `roles.ROLE.instances`'],
  ['replicas: 2', 'write `roles.ROLE.instances`'],
  ['image: x', 'write `roles.ROLE.docker.image`'],
  ['cpus: 2', 'write `roles.ROLE.resources.vcores`'],
  ['working_dir: src', 'write `source`'],
])('a word of another system: %s', (line, message) => {
  expect(atTop(line)).toContain(`is not a known key: ${message}`);
});

test('a word of another system in a role and in its resources', () => {
  expect(inRole('cpus: 2')).toContain('write `roles.worker.resources.vcores`');
  expect(inRole('resources: {cpus: 2}')).not.toBe('');
});

test.each(['after: [{role: wrker, state: running}]', 'endAfter: {role: wrker}'])('a misspelt role name: %s', (key) => {
  expect(messageOf(`name: a\ncommand: x\nroles: {worker: {}, tail: {kind: independent, ${key}}}\n`)).toContain(
    'there is no role `wrker`; did you mean `worker`? (roles: worker, tail)',
  );
});
