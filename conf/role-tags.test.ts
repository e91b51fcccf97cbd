import fc from 'fast-check';
import { expect, test } from 'vitest';
import { demandOf, isSameDemand } from './quotas.ts';
import { parseJob } from './resolve/load-job.ts';
import { demandOfTags, roleTags } from './role-tags.ts';

const job = (roles: string) => parseJob(`name: j\ncommand: c\nroles: ${roles}`, { file: 'job.yaml', folder: '/' });

test("tags contain each role's name, number of tasks and total resources", () => {
  const requested = job(
    '{worker: {instances: 4, resources: {memory: 4g, gpus: 2}}, ps: {kind: service, instances: 2, resources: {yarn.io/fpga: 1}}}',
  );
  expect(roleTags(requested)).toEqual(['tony-roles:*:0:m1024:v1+worker:4:m16384:v4:g8+ps:2:m4096:v2:yarn.io/fpga=2']);
});

test('tags contain the peak of a job whose roles run one after another', () => {
  const requested = job('{load: {instances: 2, kind: independent}, worker: {instances: 3, after: {role: load}}}');
  expect(roleTags(requested)).toEqual(['tony-roles:*:0:m1024:v1+^:3:m6144:v3+load:2:m4096:v2+worker:3:m6144:v3']);
  const parsed = demandOfTags(roleTags(requested));
  expect(parsed !== null && isSameDemand(parsed, demandOf(requested))).toBe(true);
});

test('demandOfTags reads roleTags back; there are few tags, each of at most 100 characters', () => {
  const name = fc.stringMatching(/^[a-z][a-z0-9-]{0,30}$/).filter((each) => each !== 'ps');
  const role = fc.record({ instances: fc.integer({ min: 1, max: 100_000 }), gpus: fc.integer({ min: 0, max: 1024 }) });
  fc.assert(
    fc.property(fc.dictionary(name, role, { minKeys: 1, maxKeys: 8 }), (roles) => {
      const yaml = Object.entries(roles).map(
        ([key, { instances, gpus }]) => `'${key}': {instances: ${instances}, resources: {gpus: ${gpus}}}`,
      );
      const requested = job(`{${yaml.join(', ')}}`);
      const tags = roleTags(requested);
      for (const tag of tags) {
        expect(tag.length).toBeLessThanOrEqual(100);
      }
      expect(tags.length).toBeLessThanOrEqual(Object.keys(roles).length + 1);
      const parsed = demandOfTags(tags);
      expect(parsed !== null && isSameDemand(parsed, demandOf(requested))).toBe(true);
      expect(Object.keys(parsed?.roles ?? {})).toEqual(Object.keys(roles));
    }),
  );
});

test('isSameDemand detects every difference', () => {
  const requested = demandOf(job('{worker: {instances: 4, resources: {memory: 4g, gpus: 2}}}'));
  const { worker = {} } = requested.roles;
  expect(isSameDemand(requested, { ...requested, roles: { worker: { ...worker, 'yarn.io/fpga': 0 } } })).toBe(true);
  expect(isSameDemand(requested, { ...requested, roles: { worker: { ...worker, gpus: 9 } } })).toBe(false);
  expect(isSameDemand(requested, { ...requested, roles: { worker: { ...worker, instances: 3 } } })).toBe(false);
  expect(isSameDemand(requested, { ...requested, roles: { worker, ps: worker } })).toBe(false);
  expect(isSameDemand(requested, { ...requested, roles: { ps: worker } })).toBe(false);
  expect(isSameDemand(requested, { ...requested, master: {} })).toBe(false);
  expect(isSameDemand(requested, { ...requested, peak: {} })).toBe(false);
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
  [['tony-roles:*:0:m1024']],
  [['tony-roles:Worker:1']],
  [['tony-roles:a:b:1']],
  [['tony-roles:__proto__:1']],
])('demandOfTags returns null for %j', (tags) => {
  expect(demandOfTags(tags)).toBeNull();
});
