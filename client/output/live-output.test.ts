import { expect, test } from 'vitest';
import { jobStatus } from '../../conf/job-status.fixture.ts';
import { terminalOf } from '../terminal/terminal.ts';
import { LiveOutput } from './live-output.ts';

const TERMINAL = terminalOf({ isTTY: true, columns: 80 }, { NO_COLOR: '1' });

test('after a detach, the table stays above the last line and is not redrawn', () => {
  let written = '';
  const output = new LiveOutput(
    (text) => (written += text),
    TERMINAL,
    'on HDFS',
    () => 0,
  );
  const status = jobStatus({ name: 'mnist', tasks: [] });
  output.look({ observation: { phase: 'RUNNING', waiting: '', masterSilentMs: null, status, result: null }, events: [] });
  output.leave('detached');
  const [, afterTable = ''] = written.split(/(?=detached)/);
  expect(written).toContain('mnist');
  expect(afterTable).toBe('detached\n');
});
