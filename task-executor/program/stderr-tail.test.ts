import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { lastLines, tailOf } from './program.ts';

it('keeps the last whole lines', () => {
  expect(lastLines(Buffer.from('a\nb\n\n'), false, '/program')).toBe('a\nb');
  expect(lastLines(Buffer.from('lf of a line\nb\n'), true, '/program')).toBe('b');
  expect(lastLines(Buffer.from('…only one'.slice(1)), true, '/program')).toBe('only one');
  expect(lastLines(Buffer.from('€uro').subarray(1), true, '/program')).toBe('uro');
  const lines = Array.from({ length: 100 }, (_, index) => `line ${index}`);
  expect(lastLines(Buffer.from(lines.join('\n')), false, '/program').split('\n')).toEqual(lines.slice(80));
});

it('keeps what a terminal shows of progress bars, and the lines before them', () => {
  const bar = Array.from({ length: 1_000 }, (_, done) => `epoch 0: ${done}%|███ |`).join('\r');
  const text = `before\n${bar}\nTraceback\r\nValueError: wrong\r\n`;
  expect(lastLines(Buffer.from(text), false, '/program')).toBe('before\nepoch 0: 999%|███ |\nTraceback\nValueError: wrong');
});

it('reads only the lines of one run and at most 4 KiB, and returns nothing for a missing file', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'tony-stderr-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = path.join(folder, 'stderr');
  expect(await tailOf(file, 0, '/program')).toBe('');
  writeFileSync(file, 'of the run before\nthe cause\n');
  expect(await tailOf(file, 18, '/program')).toBe('the cause');
  expect(await tailOf(file, 28, '/program')).toBe('');
  writeFileSync(file, 'x'.repeat(1 << 20));
  expect((await tailOf(file, 0, '/program')).length).toBe(4096);
});

it('shows paths in the folder of the program as relative paths', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'stderr-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = path.join(folder, 'stderr');
  writeFileSync(file, 'File "/c/program/1/train.py", line 9\nFile "/usr/lib/python3/json.py", line 1\n');
  expect(await tailOf(file, 0, '/c/program/1')).toBe('File "train.py", line 9\nFile "/usr/lib/python3/json.py", line 1');
});

it('shows where an error of a library was raised without the folders of the library and its source line', async () => {
  const library = '/cache/runtime/tree/node_modules/@tensorflow/tfjs-layers/dist/tf-layers.node.js';
  const output = [
    'epoch 1',
    `${library}:273`,
    '        var _this = _super.call(this, message) || this;',
    '                           ^',
    '',
    'ValueError: expected axis -1 to have value 2',
    `    at new ValueError (${library}:273:28)`,
    '    at Cluster.fit (file:///cache/056d/tony/training.mjs:42023:41)',
    '    at file:///c/program/1/train.mjs:3:15',
    '',
    'Node.js v22.23.3',
    '',
  ].join('\n');
  expect(lastLines(Buffer.from(output), false, '/c/program/1')).toBe(
    [
      'epoch 1',
      'ValueError: expected axis -1 to have value 2',
      '    at new ValueError (node_modules/@tensorflow/tfjs-layers/dist/tf-layers.node.js:273:28)',
      '    at Cluster.fit (tony/training.mjs:42023:41)',
      '    at train.mjs:3:15',
    ].join('\n'),
  );
});

it('keeps the source line of an error in the program', () => {
  const output = 'file:///c/program/1/train.mjs:3\nthrow new Error("x");\n      ^\n\nError: x\n';
  expect(lastLines(Buffer.from(output), false, '/c/program/1')).toBe('train.mjs:3\nthrow new Error("x");\n      ^\n\nError: x');
});
