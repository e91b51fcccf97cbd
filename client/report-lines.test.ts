import { expect, test } from 'vitest';
import type { JobReport } from './follow-job.ts';
import { reportLines } from './report-lines.ts';
import { terminalOf } from './terminal.ts';

const PLAIN = terminalOf({ isTTY: false });

function report(metrics: Record<string, number>): JobReport {
  return {
    applicationId: 'application_1_0001',
    state: 'SUCCEEDED',
    diagnostics: '',
    step: 10,
    metrics,
    checkpointStep: 0,
    checkpointDir: null,
    summaryDir: null,
    generations: 1,
    tasks: [],
  };
}

test('where the time of a step went is one line, the largest part first', () => {
  const lines = reportLines(
    report({
      'train/acc': 0.9922,
      'profile/input ms': 0.01,
      'profile/compute ms': 3.637,
      'profile/exchange ms': 6.211,
      'profile/step ms': 9.9,
      'profile/slowest rank': 1,
      'profile/slowest rank ms': 4.6,
    }),
    PLAIN,
  );
  expect(lines).toEqual([
    'application_1_0001 SUCCEEDED',
    'train acc: 99.22 %',
    'time of a step: 6.2 ms exchange, 3.6 ms compute; rank 1 was the slowest',
  ]);
  expect(reportLines(report({ 'train/acc': 1 }), PLAIN)).toEqual(['application_1_0001 SUCCEEDED', 'train acc: 100.00 %']);
});

test('training that has ended early says so right below the state', () => {
  const reason = 'stopped early at step 40: val_loss did not improve for 3 evaluations; best 0.31 at step 25';
  expect(reportLines({ ...report({}), diagnostics: reason }, PLAIN)).toEqual([
    'application_1_0001 SUCCEEDED',
    'stopped early at step 40: val_loss did not improve for 3 evaluations; best 0.31',
    'at step 25',
  ]);
});
