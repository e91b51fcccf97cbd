import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from './install.mjs';
import { HADOOP_VERSIONS, PROFILE_NAMES, type Results, table, withSummary } from './matrix-table.mjs';

test('the table names the Node version and the date of each result, and the combinations that were not run', () => {
  const page = table({
    '3.3.6 plain 20': { passed: true, date: '2026-11-24', version: '0.1.0' },
    '3.3.6 plain 24': { passed: false, date: '2026-11-25', version: '0.1.0' },
  });
  expect(page).toContain('\nThe results are of tony-ts 0.1.0.\nOf the ');
  const row = page.split('\n').find((line) => line.startsWith('| 3.3.6 ')) ?? '';
  expect(row).toBe(
    '| 3.3.6 | passed (Node 20, 2026-11-24)<br>**failed** (Node 24, 2026-11-25) | not run | not run | not run | not run | not run |',
  );
  expect(page.match(/not run/g)).toHaveLength(HADOOP_VERSIONS.length * PROFILE_NAMES.length - 1);
});

test('the table names the version of tony-ts of each result if there are several', () => {
  const page = table({
    '3.3.6 plain 20': { passed: true, date: '2026-11-24', version: '0.10.0' },
    '3.3.6 plain 24': { passed: true, date: '2026-11-25', version: '0.9.0' },
  });
  expect(page).toContain('\nThe results are of tony-ts 0.9.0 and 0.10.0.\nOf the ');
  expect(page).toContain('| passed (tony-ts 0.10.0, Node 20, 2026-11-24)<br>passed (tony-ts 0.9.0, Node 24, 2026-11-25) |');
});

test('the table in README.md lists the Node versions of each combination', () => {
  const readme = withSummary('a\n\n<!-- `npm run matrix` generates this table. -->\n\n| old |\n| --- |\n\nz\n', {
    '3.3.6 plain 20': { passed: true, date: '2026-11-24', version: '0.1.0' },
    '3.3.6 plain 22': { passed: true, date: '2026-11-24', version: '0.1.0' },
    '3.3.6 plain 24': { passed: false, date: '2026-11-25', version: '0.1.0' },
  });
  expect(readme).toContain('\n| 3.3.6 | 20, 22, **24 failed** | not run | not run | not run | not run | not run |\n');
  expect([readme.startsWith('a\n\n<!--'), readme.endsWith('|\n\nz\n'), readme.includes('old')]).toEqual([true, true, false]);
});

test('README.md and docs/compatibility.md show the recorded results', () => {
  const text = (file: string): string => readFileSync(path.join(ROOT, file), 'utf8');
  const results = JSON.parse(text('docs/compatibility.json')) as Results;
  expect(text('docs/compatibility.md')).toBe(table(results));
  expect(text('README.md')).toBe(withSummary(text('README.md'), results));
});
