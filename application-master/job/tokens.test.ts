import { expect, test } from 'vitest';
import { frozen, workers } from '../../conf/job.fixture.ts';
import { JobScenario } from './simulator/job-scenario.ts';

function scene(): JobScenario {
  const job = new JobScenario(frozen({ roles: [workers({ instances: 1 })] }));
  job.register();
  job.serve();
  return job;
}

test('the newest report about delegation tokens is a notice of the job until the tokens are replaced', () => {
  const job = scene();
  job.say({ type: 'tokens', event: 'tokens-failed', detail: 'kinit failed', notice: 'kinit failed' });
  job.say({ type: 'tokens', event: 'tokens-ending', detail: 'the end is near', notice: 'the end is near' });
  expect(job.status().notices).toEqual(['the end is near']);
  expect(job.history.filter((line) => line.startsWith('tokens-'))).toHaveLength(2);
  job.say({ type: 'tokens', event: 'tokens-replaced', detail: 'valid again', notice: null });
  expect(job.status()).toMatchObject({ state: 'running', notices: [] });
});

test('a job fails with the reason when its delegation tokens have expired', () => {
  const job = scene();
  job.say({ type: 'tokens-ended', reason: "The job's delegation tokens expired." });
  expect(job.status()).toMatchObject({ state: 'failed', message: "The job's delegation tokens expired." });
});
