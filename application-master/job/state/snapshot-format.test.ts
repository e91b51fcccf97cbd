import { expect, it } from 'vitest';
import { frozen, workers } from '../../../conf/job.fixture.ts';
import { TonyError } from '../../../platform/errors.ts';
import { JobScenario } from '../simulator/job-scenario.ts';
import { parseSnapshot } from './snapshot-format.ts';

it('a stored snapshot is read back unchanged', () => {
  const scene = JobScenario.running(frozen({ roles: [workers()] }));
  scene.exit('c2', 3, { stderr: 'Error: out of cheese' });
  expect(scene.snapshot).toMatchObject({ generation: 1, firstFailure: { lines: ['Error: out of cheese'] } });
  expect(parseSnapshot(JSON.stringify(scene.snapshot))).toEqual(scene.snapshot);
});

it('ignores a failure that cannot be read', () => {
  const scene = JobScenario.running(frozen({ roles: [workers()] }));
  const tasks = scene.snapshot?.tasks.map((task) => ({ ...task, failure: { cause: 'unknown' } }));
  expect(parseSnapshot(JSON.stringify({ ...scene.snapshot, tasks })).tasks.map(({ failure }) => failure)).toEqual([null, null]);
});

it.each(['', '{}', '[]', 'null', '{"version":2}', '{"version":1,"tasks":[{}]}'])('rejects an incomplete snapshot: %s', (text) => {
  expect(() => parseSnapshot(text)).toThrow(TonyError);
  expect(() => parseSnapshot(text)).toThrow(/^The job's saved state cannot be read: /);
});
