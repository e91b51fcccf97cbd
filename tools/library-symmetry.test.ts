import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { Cluster } from '../training/cluster/cluster.ts';
import * as library from '../training/index.ts';

/*
 * A program in TypeScript and one in Python do the same things under the same names, in camelCase and in snake_case. This file compares the
 * public names of `tony-ts/training` (its values, its types that Python also has, and the members of `Cluster`) with those of the package
 * `tony` (its functions and classes, and the fields of the task). Each difference has a reason here.
 */

const ROOT = path.join(import.meta.dirname, '..');

/** The same thing under different names: TypeScript, Python. */
const OTHERWISE: readonly (readonly [string, string])[] = [
  // `join` connects the ranks. Python programs only ask who they are.
  ['join', 'context'],
  ['Cluster', 'Task'],
  // In TypeScript, a dataset.
  ['data.fromFeed', 'feed'],
  // TypeScript programs read the folder with datasets. In Python, `data_dir(name)` also copies it to the node.
  ['cluster.data', 'data_uris'],
  ['cluster.summaries', 'summary_dir'],
  // `storage` has all file operations; Python has a file object and fsspec.
  ['cluster.storage', 'open'],
  // `dataset.claimSplits()` divides files; `claim` divides any items.
  ['Dataset', 'claim'],
];

/** Python names without an equivalent in TypeScript. */
const ONLY_PYTHON: Readonly<Record<string, readonly string[]>> = {
  '`fit` and `cluster.loop` write and load checkpoints': [
    'latest_checkpoint',
    'save_checkpoint',
    'should_checkpoint',
    'checkpoint_every_steps',
    'checkpoint_every_seconds',
    'checkpoint_uri',
  ],
  'TypeScript writes exports directly to storage': ['save_output', 'data_dir'],
  'TypeScript has one error class with a code': ['DeniedError', 'ExistingFileError', 'MissingFileError'],
  'a Python sweep is an iterator of trials': ['Sweep'],
  'a TypeScript task is one process': ['local_rank', 'task_rank'],
  'TypeScript connects the tasks itself': ['members', 'Member'],
  'programs in Python answer requests of Spark': ['serve'],
  'parts of the protocol with the executor': ['report_file', 'checkpoint_order', 'services', 'in_job'],
};

/** TypeScript names without an equivalent in Python, whose frameworks have their own. */
const ONLY_TYPESCRIPT: Readonly<Record<string, readonly string[]>> = {
  'training is the matter of the Python framework': [
    ...['tf', 'backend', 'models', 'fit', 'evaluate', 'evaluateCheckpoints', 'predict', 'loop', 'step'].map((name) => `cluster.${name}`),
    ...['allReduce', 'broadcast', 'barrier', 'vector', 'share', 'isChief', 'close'].map((name) => `cluster.${name}`),
  ],
  'datasets and file formats': [
    ...['read', 'uri', 'idx'].map((name) => `cluster.${name}`),
    ...Object.keys(library.data).map((name) => `data.${name}`),
    ...['data', 'decodeExample', 'decodeImage', 'decodeSequenceExample', 'encodeExample', 'encodeSequenceExample', 'fixedLenFeature'],
    ...['parseExample', 'shardName', 'varLenFeature', 'writeTfRecords'],
  ],
  'called by `run` of the client library': ['runCall'],
};

function snakeCase(name: string): string {
  const plain = name.replace(/^(cluster|data)\./, '');
  return /^[A-Z]/.test(plain) ? plain : plain.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

async function typescriptNames(): Promise<string[]> {
  const read = async (file: string) => await readFile(path.join(ROOT, 'training', file), 'utf8');
  const source = await read('cluster/cluster.ts');
  const ofClass = source.slice(source.indexOf('export class Cluster'));
  const fields = [...ofClass.matchAll(/^ {2}readonly (\w+):/gm)].map(([, name]) => name as string);
  const methods = Object.getOwnPropertyNames(Cluster.prototype).filter((name) => name !== 'constructor');
  const types = [...(await read('index.ts')).matchAll(/\b(Cluster|Checkpoint|Trial|TrialResult)\b(?=[,} ])/g)].map(([name]) => name);
  return [
    ...new Set([
      ...Object.keys(library),
      ...types,
      ...Object.keys(library.data).map((name) => `data.${name}`),
      ...[...fields, ...methods].map((name) => `cluster.${name}`),
    ]),
  ];
}

async function pythonNames(): Promise<string[]> {
  const read = async (file: string) => await readFile(path.join(ROOT, 'python', 'tony', file), 'utf8');
  const [, all = ''] = /__all__ = \[([^\]]*)\]/.exec(await read('__init__.py')) ?? [];
  const task = await read('_task.py');
  const ofTask = task.slice(task.indexOf('class Task:'), task.indexOf('@functools'));
  const fields = [...ofTask.matchAll(/^ {4}(?:def )?([a-z]\w*)(?=: |\(self)/gm)].map(([, name]) => name as string);
  return [...all.matchAll(/"(\w+)"/g)].map(([, name]) => name as string).concat(fields);
}

test('both libraries have the same public names, apart from the differences that this file explains', async () => {
  const [typescript, python] = [await typescriptNames(), await pythonNames()];
  expect(typescript.length).toBeGreaterThan(60);
  expect(python.length).toBeGreaterThan(40);
  const known = new Set([...OTHERWISE.map(([name]) => name), ...Object.values(ONLY_TYPESCRIPT).flat()]);
  const knownPython = new Set([...OTHERWISE.map(([, name]) => name), ...Object.values(ONLY_PYTHON).flat()]);
  const inPython = new Set(python);
  const inTypescript = new Set(typescript.map(snakeCase));
  expect(typescript.filter((name) => !known.has(name) && !inPython.has(snakeCase(name)))).toEqual([]);
  expect(python.filter((name) => !knownPython.has(name) && !inTypescript.has(name))).toEqual([]);
  // The tables name nothing that does not exist.
  expect([...known].filter((name) => !typescript.includes(name))).toEqual([]);
  expect([...knownPython].filter((name) => !inPython.has(name))).toEqual([]);
});
