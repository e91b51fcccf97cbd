import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { fileBeside, isTooBroad } from './default-source.ts';

const FILES = new Set(['train.ts', 'src/main.py', 'run', 'conf.yaml', 'sleep', '5', 'my file.ts', 'pkg/train.py', 'app/__main__.py']);
const beside = (command: string) => fileBeside(command, (path) => FILES.has(path));

test.each([
  ['node train.ts --epochs 3', 'train.ts'],
  ['RATE=0.1 node ./train.ts', 'train.ts'],
  ['cd /tmp && python3 src/main.py', 'src/main.py'],
  ['./run', 'run'],
  ['python3 -m trainer --config=conf.yaml', 'conf.yaml'],
  ['node "my file.ts"', 'my file.ts'],
  ['cat <conf.yaml', 'conf.yaml'],
  ['python3 -u -m pkg.train --epochs 3', 'pkg/train.py'],
  ['python3 -m app', 'app/__main__.py'],
  ['cd src && python3 main.py', 'src/main.py'],
  ['cd src; python3 -m main', 'src/main.py'],
  ['PYTHONPATH=/opt/lib:src python3 -m main', 'src/main.py'],
  ['export PYTHONPATH=src; python3 -m main', 'src/main.py'],
  ['env PYTHONPATH=src python3 -m main', 'src/main.py'],
])('the command %s names the file %s', (command, file) => {
  expect(beside(command)).toBe(file);
});

test.each([
  'sleep 5',
  'sleep',
  'run; sleep 5',
  'node /opt/train.ts',
  'node ../train.ts',
  'node ~/train.ts',
  'node $HOME/train.ts',
  'node missing.ts',
  'python3 -m pkg.missing',
  'python3 -m ..pkg.train',
  'cd .. && python3 train.py',
  'node --input-type=module --eval "import \'tony-ts/training\'"',
])('the command %s names no file in the folder', (command) => {
  expect(beside(command)).toBeUndefined();
});

test('a home folder and its parent folders are too broad to be the default source', () => {
  expect(['/home/alice', '/home', '/'].map((folder) => isTooBroad(folder, '/home/alice'))).toEqual([true, true, true]);
  expect(['/home/alice/job', '/home/bob', '/srv/jobs'].map((folder) => isTooBroad(folder, '/home/alice'))).toEqual([false, false, false]);
});

test('a home folder is too broad even if the path leads through a link', () => {
  const root = mkdtempSync(join(tmpdir(), 'tony-ts-home-'));
  onTestFinished(() => rmSync(root, { recursive: true }));
  mkdirSync(join(root, 'disk', 'alice', 'job'), { recursive: true });
  symlinkSync('disk', join(root, 'home'));
  const wide = (folder: string, home: string): boolean => isTooBroad(join(root, folder), join(root, home));
  expect([wide('disk/alice', 'home/alice'), wide('disk', 'home/alice'), wide('home/alice', 'disk/alice')]).toEqual([true, true, true]);
  expect(wide('disk/alice/job', 'home/alice')).toBe(false);
});

test('a shared folder such as /tmp is too broad', () => {
  const shared = mkdtempSync(join(tmpdir(), 'shared-'));
  onTestFinished(() => rmSync(shared, { recursive: true, force: true }));
  expect(isTooBroad(shared, '/home/alice')).toBe(false);
  chmodSync(shared, 0o1777);
  expect(isTooBroad(shared, '/home/alice')).toBe(true);
});
