import { expect, test } from 'vitest';
import { terminalOf } from '../../terminal/terminal.ts';
import { TextOutput } from './text-output.ts';

test('in a pipe, a long upload prints a line every ten seconds, and a line at its end', () => {
  let now = 0;
  let written = '';
  const output = new TextOutput(
    (text) => {
      written += text;
    },
    terminalOf({ isTTY: false }),
    false,
    () => now,
  );
  const total = 1_000_000_000;
  for (; now < 25_000; now += 100) {
    output.staging({ type: 'upload', name: 'runtime', sent: (total * now) / 25_000, total });
  }
  output.staging({ type: 'upload', name: 'runtime', sent: total, total });
  output.staging({ type: 'upload', name: 'source', sent: 0, total: 10 });
  output.staging({ type: 'upload', name: 'source', sent: 10, total: 10 });
  output.staging({ type: 'unchanged', name: 'tony', bytes: 1_500_000 });
  expect(written.split('\n')).toEqual([
    'runtime: 40 %, 400.0 MB of 1.0 GB, 40.0 MB/s, 15 s left',
    'runtime: 80 %, 800.0 MB of 1.0 GB, 40.0 MB/s, 5 s left',
    'runtime uploaded (1.0 GB)',
    'source uploaded (10 B)',
    'tony unchanged (1.5 MB already on HDFS)',
    '',
  ]);
});

test('files of a job on this machine are copied, not uploaded', () => {
  let written = '';
  const output = new TextOutput(
    (text) => {
      written += text;
    },
    terminalOf({ isTTY: false }),
    true,
  );
  output.staging({ type: 'upload', name: 'source', sent: 10, total: 10 });
  output.staging({ type: 'unchanged', name: 'tony', bytes: 1_500_000 });
  expect(written).toBe('source copied (10 B)\ntony unchanged (1.5 MB already on this machine)\n');
});
