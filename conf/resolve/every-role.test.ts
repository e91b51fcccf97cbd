import { expect, test } from 'vitest';
import type { Job } from '../job.ts';
import { parseJob } from './load-job.ts';
import { parseSite } from './site.ts';

const HEAD = 'name: x\nframework: none\ncommand: run\n';

function parse(text: string, set: readonly string[] = [], site = ''): Job {
  const options = { file: 'job.yaml', folder: '/x', set };
  return parseJob(`${HEAD}${text}`, site === '' ? options : { ...options, site: parseSite(site, 'site.yaml') });
}

function mistakesOf(text: string): string[] {
  try {
    parse(text);
  } catch (error) {
    return String(error)
      .split('\n')
      .slice(1)
      .map((line) => line.trim());
  }
  return [];
}

test('the entry * fills the keys that a role does not set, adds no role, and merges mappings', () => {
  const { roles } = parse(`roles:
  "*": {resources: {memory: 4g, gpus: 1}, env: {A: all, B: all}, restart: {maxRestarts: 1}, docker: {image: all, network: host}}
  worker: {instances: 2, resources: {memory: 8g}, env: {A: own}}
  evaluator: {resources: {gpus: 0}, docker: {image: own}, restart: {policy: never}}
`);
  expect(roles.map(({ name }) => name)).toEqual(['worker', 'evaluator']);
  expect(roles).toMatchObject([
    {
      instances: 2,
      resources: { memoryMb: 8192, gpus: 1 },
      env: { A: 'own', B: 'all' },
      restart: { policy: 'on-failure', maxRestarts: 1 },
      docker: { image: 'all', network: 'host' },
    },
    {
      resources: { memoryMb: 4096, gpus: 0 },
      env: { A: 'all', B: 'all' },
      restart: { policy: 'never', maxRestarts: 1 },
      docker: { image: 'own', network: null },
    },
  ]);
});

test('--set changes the entry *, and the entry takes precedence over the site file', () => {
  const text = 'roles: {"*": {nodeLabel: job}, a: {}, b: {nodeLabel: own}}\n';
  const site = 'defaults: {roles: {"*": {nodeLabel: site, resources: {memory: 3g}}, a: {nodeLabel: site-a}}}\n';
  const shown = (set: readonly string[]) => parse(text, set, site).roles.map(({ nodeLabel, resources }) => [nodeLabel, resources.memoryMb]);
  expect(shown([])).toEqual([
    ['job', 3072],
    ['own', 3072],
  ]);
  expect(shown(['roles.*.nodeLabel=set'])).toEqual([
    ['set', 3072],
    ['own', 3072],
  ]);
});

test('a merge changes neither the target of an alias nor other roles', () => {
  const { roles } = parse(`roles:
  "*": {env: {A: all}}
  a: &a {env: {B: b}}
  b: *a
  c: {<<: *a, env: &env {C: c}}
  d: {env: *env, resources: {memory: 1g}}
`);
  expect(roles.map(({ env }) => env)).toEqual([
    { A: 'all', B: 'b' },
    { A: 'all', B: 'b' },
    { A: 'all', C: 'c' },
    { A: 'all', C: 'c' },
  ]);
});

test('mistakes in the entry * are reported once, where they are written', () => {
  expect(mistakesOf('roles:\n  "*": {resources: {memory: much}, ranked: true}\n  a: {}\n  b: {}\n')).toEqual([
    'job.yaml:5:29  roles.a.resources.memory: expected a size such as 512m or 4g, found `much`',
    'job.yaml:5:36  roles.a.ranked: is not a known key: write `kind: independent` for a role without ranks, `kind: gang` for one with ranks',
  ]);
  expect(mistakesOf('roles: {"*": 5, a: {}}\n')).toEqual(['job.yaml:4:14  roles.*: expected a mapping, found `5`']);
  expect(mistakesOf('roles: {"*": {instances: 2}}\n')).toEqual(['job.yaml:4:8  roles: at least one role is required']);
});
