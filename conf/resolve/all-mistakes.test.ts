import { expect, test } from 'vitest';
import { messageOf } from '../../platform/errors.ts';
import { parseJob } from './load-job.ts';
import { parseSite } from './site.ts';

/** Mistakes that the schema detects, as keys of the job or of the role `extra`, with the path of the mistake. */
const DETECTED: readonly (readonly ['job' | 'role', string, string])[] = [
  ['job', 'timeout: soon', 'timeout'],
  ['job', 'heartbeat: {missed: none}', 'heartbeat.missed'],
  ['job', 'tags: [{}]', 'tags.0'],
  ['job', 'master: {memroy: 1g}', 'master.memroy'],
  ['job', 'tensorboard: {serve: maybe}', 'tensorboard.serve'],
  ['job', 'checkpoint: {keep: 0}', 'checkpoint.keep'],
  ['role', 'timeout: 5', 'roles.extra.timeout'],
  ['role', 'resources: {memory: much}', 'roles.extra.resources.memory'],
  ['role', 'resources: {memroy: 1g}', 'roles.extra.resources.memroy'],
];
/** Mistakes that the schema cannot detect. */
const UNDETECTED: readonly (readonly ['job' | 'role', string, string])[] = [
  ['job', 'data: {d: http://h/x}', 'data.d'],
  ['job', 'env: {TONY_RANK: 1}', 'env.TONY_RANK'],
  ['job', 'chief: nobody', 'chief'],
  ['role', 'after: [{role: nobody}]', 'roles.extra.after'],
  ['role', 'restart: {policy: never, onExitCodes: [1]}', 'roles.extra.restart.onExitCodes'],
];

test.each(DETECTED.flatMap((one) => UNDETECTED.map((other) => [one[1], other[1], [one, other]] as const)))(
  '%s and %s are reported together',
  (_one, _other, mistakes) => {
    expect(pathsOf(() => parseJob(jobWith(mistakes), { file: 'job.yaml', folder: '/jobs' }))).toEqual(
      mistakes.map(([, , path]) => path).sort(),
    );
  },
);

test.each([
  ['command: 5', 'extra: {command: [a]}', ['roles.extra.command']],
  ['framework: pytorhc', 'extra: {command: torchrun --nnodes 2 x.py}', ['framework']],
  ['comand: x', 'extra: {}', ['comand']],
])('a mistake on which other rules depend has no consequences in the list: %s', (line, role, paths) => {
  const text = `name: a\n${line}\nroles: {worker: {command: x}, ${role}}`;
  expect(pathsOf(() => parseJob(text, { file: 'job.yaml', folder: '/jobs' }))).toEqual(expect.arrayContaining(paths));
  expect(() => parseJob(text, { file: 'job.yaml', folder: '/jobs' })).not.toThrow(/neither the role nor the job|torchrun would/);
});

test('the site file reports all mistakes together', () => {
  const text = 'history: {url: https://h}\ncache: {maxAge: 5}\nquotas: {roles: {worker: {task: {gpus: 1, gpu: 2, memroy: 1m}}}}';
  expect(pathsOf(() => parseSite(text, 'tony-site.yaml'))).toEqual([
    'cache.maxAge',
    'history.url',
    'quotas.roles.worker.task.gpu',
    'quotas.roles.worker.task.memroy',
  ]);
});

function jobWith(mistakes: readonly (readonly ['job' | 'role', string, string])[]): string {
  const keys = (of: string) => mistakes.filter(([place]) => place === of).map(([, text]) => text);
  return `name: a\ncommand: b\n${keys('job').join('\n')}\nroles: {worker: {}, extra: {${keys('role').join(', ')}}}`;
}

/** Returns the paths that the mistakes name. */
function pathsOf(parse: () => unknown): string[] {
  try {
    parse();
  } catch (error) {
    return [...messageOf(error).matchAll(/:\d+:\d+ {2}([\w.]+): /g)].map(([, path = '']) => path).sort();
  }
  return [];
}
