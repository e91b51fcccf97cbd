import { expect, test } from 'vitest';
import { HADOOP_VERSIONS, PROFILE_NAMES, table } from './matrix-table.mjs';

test('the table names the Node version and the date of each result, and the combinations that were not run', () => {
  const page = table({
    '3.3.6 plain 20': { passed: true, date: '2026-11-24' },
    '3.3.6 plain 24': { passed: false, date: '2026-11-25' },
  });
  const row = page.split('\n').find((line) => line.startsWith('| 3.3.6 ')) ?? '';
  expect(row).toBe(
    '| 3.3.6 | passed (Node 20, 2026-11-24)<br>**failed** (Node 24, 2026-11-25) | not run | not run | not run | not run | not run |',
  );
  expect(page.match(/not run/g)).toHaveLength(HADOOP_VERSIONS.length * PROFILE_NAMES.length - 1);
});
