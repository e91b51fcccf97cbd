import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseJob } from './load-job.ts';
import { demandOf } from './quotas.ts';
import { rolesOfTags, roleTags } from './role-tags.ts';

const job = (roles: string) => parseJob(`name: j\ncommand: c\nroles: ${roles}`, { file: 'job.yaml', folder: '/' });

test('roles are told by name, tasks and what these take together', () => {
  const asked = job(
    '{worker: {instances: 4, resources: {memory: 4g, gpus: 2}}, ps: {untracked: true, instances: 2, resources: {yarn.io/fpga: 1}}}',
  );
  expect(roleTags(asked)).toEqual(['tony-roles:worker:4:m16384:v4:g8+ps:2:m4096:v2:yarn.io/fpga=2']);
});

test('what was told is understood, in as few tags as it fits into, each of 100 characters', () => {
  // A role `ps` may mean nothing, by the strategy.
  const name = fc.stringMatching(/^[a-z][a-z0-9-]{0,30}$/).filter((each) => each !== 'ps');
  const role = fc.record({ instances: fc.integer({ min: 1, max: 100_000 }), gpus: fc.integer({ min: 0, max: 1024 }) });
  fc.assert(
    fc.property(fc.dictionary(name, role, { minKeys: 1, maxKeys: 8 }), (roles) => {
      const yaml = Object.entries(roles).map(
        ([key, { instances, gpus }]) => `'${key}': {instances: ${instances}, resources: {gpus: ${gpus}}}`,
      );
      const asked = job(`{${yaml.join(', ')}}`);
      const tags = roleTags(asked);
      for (const tag of tags) expect(tag.length).toBeLessThanOrEqual(100);
      expect(tags.length).toBeLessThanOrEqual(Object.keys(roles).length);
      const without = (all: ReturnType<typeof demandOf>) =>
        Object.entries(all).map(([each, amounts]) => [
          each,
          Object.fromEntries(Object.entries(amounts).filter(([, amount]) => amount !== 0)),
        ]);
      expect(Object.entries(rolesOfTags(tags) ?? {})).toEqual(without(demandOf(asked)));
    }),
  );
});

test.each([
  [[]],
  [['tony-ts', 'mine']],
  [['tony-roles:worker']],
  [['tony-roles:worker:x']],
  [['tony-roles:worker:1:m']],
  [['tony-roles:worker:1:q5']],
  [['tony-roles:worker:1:gpu=-1']],
  [['tony-roles:worker:1', 'tony-roles:worker:1']],
])('%j says nothing', (tags) => {
  expect(rolesOfTags(tags)).toBeNull();
});
