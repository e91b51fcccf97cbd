import { expect, test } from 'vitest';
import { TonyError } from '../../platform/errors.ts';
import { type Check, diagnose, type Finding, fail, ok, warn } from './diagnosis.ts';

async function findings(checks: readonly Check[]): Promise<Finding[]> {
  const all: Finding[] = [];
  for await (const finding of diagnose(checks)) {
    all.push(finding);
  }
  return all;
}

test('skips checks that depend on a failed check, directly or indirectly', async () => {
  const looked: string[] = [];
  const check = (name: string, needs: string[], verdict = ok('fine')): Check => ({
    name,
    needs,
    look: async () => {
      looked.push(name);
      return verdict;
    },
  });
  const found = await findings([
    check('rm', [], fail('is down', 'start it')),
    check('nn', [], warn('is slow', 'wait')),
    check('queue', ['rm']),
    check('limits', ['queue']),
    check('staging', ['nn']),
  ]);
  expect(looked).toEqual(['rm', 'nn', 'staging']);
  expect(found.map(({ name, state }) => `${name} ${state}`)).toEqual([
    'rm error',
    'nn warning',
    'queue skipped',
    'limits skipped',
    'staging ok',
  ]);
});

test("reports a check that throws as an error, with the error's hint", async () => {
  const look = async () => {
    throw new TonyError('RM_UNREACHABLE', 'No server answers.');
  };
  expect(await findings([{ name: 'rm', needs: [], look }])).toEqual([
    {
      name: 'rm',
      state: 'error',
      message: 'No server answers.',
      hint: expect.stringContaining('Check that the ResourceManager is running'),
    },
  ]);
});
