import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { beforeEach, expect, it, onTestFinished } from 'vitest';
import { createProgramFolder } from './task-folder.ts';

let container: string;
let cache: string;

/** Creates a container in the NodeManager's layout. The source is a symbolic link into a cache shared with other containers. */
beforeEach(() => {
  const root = mkdtempSync(path.join(tmpdir(), 'tony-program-folder-'));
  onTestFinished(() => {
    execFileSync('chmod', ['-R', 'u+w', root]);
    rmSync(root, { recursive: true });
  });
  [container, cache] = [path.join(root, 'container'), path.join(root, 'cache')];
  mkdirSync(container);
  mkdirSync(path.join(cache, 'data', 'empty'), { recursive: true });
  writeFileSync(path.join(cache, 'job.yaml'), 'name: pristine\n', { mode: 0o400 });
  writeFileSync(path.join(cache, 'data', 'run.sh'), '#!/bin/sh\n', { mode: 0o555 });
  symlinkSync('data/run.sh', path.join(cache, 'run'));
  symlinkSync('missing', path.join(cache, 'dangling'));
  symlinkSync(cache, path.join(container, 'source'));
});

function create(generation: number, source: string | null = path.join(container, 'source')): Promise<string> {
  return createProgramFolder(container, generation, source, (folder, error) => {
    throw new Error(`${folder} was left behind`, { cause: error });
  });
}

it('copies files with their modes, empty folders, and links without changes', async () => {
  const folder = await create(1);
  expect(folder).toBe(path.join(container, 'program', '1'));
  expect(lstatSync(folder).isDirectory()).toBe(true);
  expect(readdirSync(folder, { recursive: true }).sort()).toEqual(['dangling', 'data', 'data/empty', 'data/run.sh', 'job.yaml', 'run']);
  expect(readFileSync(path.join(folder, 'job.yaml'), 'utf8')).toBe('name: pristine\n');
  expect(statSync(path.join(folder, 'data', 'run.sh')).mode & 0o777).toBe(0o755);
  expect(statSync(path.join(folder, 'job.yaml')).mode & 0o777).toBe(0o600);
  expect(readlinkSync(path.join(folder, 'run'))).toBe('data/run.sh');
  expect(readlinkSync(path.join(folder, 'dangling'))).toBe('missing');
});

it('copies thousands of files', async () => {
  for (let file = 0; file < 3_000; file++) {
    writeFileSync(path.join(cache, 'data', `file-${file}`), String(file));
  }
  const folder = await create(1);
  expect(readFileSync(path.join(folder, 'data', 'file-2999'), 'utf8')).toBe('2999');
  expect(readdirSync(path.join(folder, 'data'))).toHaveLength(3_002);
});

it('shares no file with the source', async () => {
  const folder = await create(1);
  writeFileSync(path.join(folder, 'job.yaml'), 'changed');
  rmSync(path.join(folder, 'data'), { recursive: true });
  writeFileSync(path.join(folder, 'state.txt'), 'x');
  expect(readFileSync(path.join(cache, 'job.yaml'), 'utf8')).toBe('name: pristine\n');
  expect(readdirSync(cache, { recursive: true }).sort()).toEqual(['dangling', 'data', 'data/empty', 'data/run.sh', 'job.yaml', 'run']);
});

it('starts each generation from a fresh copy and removes the previous one', async () => {
  const first = await create(1);
  writeFileSync(path.join(first, 'state.txt'), 'x');
  const second = await create(3);
  expect(existsSync(first)).toBe(false);
  expect(existsSync(path.join(second, 'state.txt'))).toBe(false);
  expect(readFileSync(path.join(second, 'job.yaml'), 'utf8')).toBe('name: pristine\n');
});

it('removes a folder that a program made read-only', async () => {
  const first = await create(1);
  chmodSync(path.join(first, 'data'), 0o500);
  chmodSync(first, 0o500);
  await create(2);
  expect(existsSync(first)).toBe(false);
});

it('replaces an interrupted copy of the same generation', async () => {
  await create(1);
  rmSync(path.join(container, 'program', '1', 'job.yaml'));
  expect(existsSync(path.join(await create(1), 'job.yaml'))).toBe(true);
});

it('creates an empty folder for a job without a source', async () => {
  expect(readdirSync(await create(1, null))).toEqual([]);
});

it('links the files of job.yaml, and removes only the links with the folder', async () => {
  mkdirSync(path.join(container, 'files'));
  for (const name of ['words', 'model']) {
    symlinkSync(path.join(cache, name === 'words' ? 'job.yaml' : 'data'), path.join(container, 'files', name));
  }
  const first = await create(1);
  expect(readlinkSync(path.join(first, 'words'))).toBe('../../files/words');
  expect(readFileSync(path.join(first, 'words'), 'utf8')).toBe('name: pristine\n');
  expect(readdirSync(path.join(first, 'model'))).toEqual(['empty', 'run.sh']);
  await create(2);
  expect(existsSync(first)).toBe(false);
  expect(existsSync(path.join(cache, 'data', 'run.sh'))).toBe(true);
});
