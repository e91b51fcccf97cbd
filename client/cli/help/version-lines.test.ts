import { expect, test } from 'vitest';
import { terminalOf } from '../../terminal/terminal.ts';
import { versionLines } from './version-lines.ts';

const FOUND = [
  { part: 'tony-ts', version: '1.0.0', message: '' },
  { part: 'Python', version: null, message: 'no python3 on the PATH; only TensorBoard needs it' },
];

test('prints one line per part, and "none" for a missing part', () => {
  expect(versionLines(FOUND, terminalOf({}))).toEqual([
    'tony-ts  1.0.0',
    'Python   none  (no python3 on the PATH; only TensorBoard needs it)',
  ]);
  const narrow = terminalOf({ isTTY: true, columns: 40 }, { NO_COLOR: '1' });
  expect(versionLines(FOUND, narrow)).toEqual([
    'tony-ts  1.0.0',
    'Python   none  (no python3 on the PATH;',
    '         only TensorBoard needs it)',
  ]);
});
