import path from 'node:path';
import { expect } from 'vitest';
import type { Storage } from '../storage/storage.ts';
import { ROOT } from './command.ts';
import { pythonWithTools } from './python-environment.ts';

/** What the program sees in an empty folder, on every kind of storage. */
const SEEN = {
  found: ['a/b/two words %20.bin', 'a/one.txt'],
  globbed: ['a/one.txt'],
  walked: [
    [['.'], ['a'], []],
    [['a'], ['b'], ['one.txt']],
    [['a/b'], [], ['two words %20.bin']],
  ],
  lines: ['one\n', 'zwölf\n'],
  left: ['a/b/two words %20.bin', 'a/one.txt', 'empty', 'put/b/two words %20.bin', 'put/moved.txt'],
  sizes: [11, 0],
  folders: [true, false, true, false],
  errors: [
    ['missing', 'NOT_FOUND'],
    ['found', 'ALREADY_EXISTS'],
    ['found', 'ALREADY_EXISTS'],
    ['missing', 'NOT_FOUND'],
  ],
};

export const FSSPEC_PROGRAM = path.join(ROOT, 'integration-tests', 'programs', 'files-by-fsspec.py');

/** Returns a role of job.yaml that runs this program in the folder `uri`. */
export async function fsspecRole(uri: string): Promise<string> {
  const program = path.basename(FSSPEC_PROGRAM);
  return `{command: '${await pythonWithTools()} ${program} ${uri}', kind: independent, resources: {memory: 512m}, restart: {policy: never}}`;
}

export async function expectSeen(storage: Storage, folder: string): Promise<void> {
  expect(JSON.parse((await storage.read(`${folder}/seen.json`)).toString())).toEqual(SEEN);
}
