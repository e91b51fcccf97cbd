import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from './install.mjs';
import { recorded, withTables } from './performance.mjs';

test('the page keeps its text, and shows each figure with its goal and a verdict', () => {
  const page = 'text\n<!-- `npm run bench -- all --record` generates the rest of this page. -->\nold\n';
  const machine = { date: '2026-11-30', commit: 'abc', machine: '2 cores' };
  const ring = { benchmark: 'allreduce', what: 'theirs / ours', value: 0.93, unit: 'x', goal: '>= 1.2', isMet: false, detail: '3 / 4 ms' };
  const help = { benchmark: 'help', what: 'tony-ts list --help', value: 210, unit: 'ms', goal: '<= 500', isMet: true };
  const shown = withTables(page, { help: { ...machine, figures: [help] }, allreduce: { ...machine, figures: [ring] } });
  expect(shown.startsWith('text\n<!--')).toBe(true);
  expect(shown).not.toContain('old');
  expect(shown).toContain('### allreduce\n\nMeasured on 2026-11-30 at commit abc, 2 cores.\n');
  expect(shown).toContain('| theirs / ours | 0.93 | ≥ 1.2, **missed** | 3 / 4 ms |\n');
  expect(shown).toContain('| tony-ts list --help | 210 ms | ≤ 500, met |  |\n');
  expect(() => withTables('text', {})).toThrow('has no line');
});

test('docs/performance.md shows the recorded results', async () => {
  const page = readFileSync(path.join(ROOT, 'docs', 'performance.md'), 'utf8');
  expect(withTables(page, await recorded())).toBe(page);
});
