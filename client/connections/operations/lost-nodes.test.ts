import { expect, test } from 'vitest';
import { lostNodes, lostNodesText } from './lost-nodes.ts';

const at = new Date(2026, 10, 21, 14, 3, 44).getTime();

test("lostNodes finds the lost nodes in a job's events", () => {
  const lost = lostNodes([
    { at, type: 'node-lost', node: 'node2:8041', message: 'it ran 1 task of the job' },
    { at, type: 'container-ended', node: 'node2:8041', message: 'the node was lost (exit status -100)' },
    { at, type: 'node-lost' },
    { at: at + 60_000, type: 'node-lost', node: 'node2:8041' },
  ]);
  expect(lost).toEqual([
    { node: 'node2:8041', at },
    { node: 'node2:8041', at: at + 60_000 },
  ]);
  expect(lostNodesText(lost)).toBe('node2:8041 at 2026-11-21 14:03:44, node2:8041 at 2026-11-21 14:04:44');
  expect(lostNodesText([])).toBe('');
});

test('lostNodesText lists the newest of many losses', () => {
  const many = Array.from({ length: 8 }, (_, index) => ({ node: `node${index}:8041`, at }));
  expect(lostNodesText(many)).toMatch(/^2 earlier, node2:8041 at .*, node7:8041 at 2026-11-21 14:03:44$/);
});
