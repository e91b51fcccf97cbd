import { expect, it } from 'vitest';
import { TonyError } from '../../platform/errors.ts';
import { frozen, JobScenario, workers } from './simulator/job-scenario.ts';
import { parseSnapshot } from './snapshot.ts';

it('comes back from storage as it went there', () => {
  const scene = JobScenario.running(frozen({ roles: [workers()] }));
  scene.exit('c2', 3, { stderr: 'Error: out of cheese' });
  expect(scene.snapshot).toMatchObject({ generation: 1, firstFailure: { lines: ['Error: out of cheese'] } });
  expect(parseSnapshot(JSON.stringify(scene.snapshot))).toEqual(scene.snapshot);
});

it.each(['', '{}', '[]', 'null', '{"version":2}', '{"version":1,"tasks":[{}]}'])('is refused when it is not whole: %s', (text) => {
  expect(() => parseSnapshot(text)).toThrow(TonyError);
  expect(() => parseSnapshot(text)).toThrow(/^The job's saved state cannot be read: /);
});
