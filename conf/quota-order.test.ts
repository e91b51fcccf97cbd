import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { placeJobs, TakenResources } from './quota-order.ts';
import type { Amounts } from './quota-schema.ts';
import { ALL_JOBS, amountsOf, type Owner, type RunningJob, scopesWith, takenBy } from './quotas.ts';
import { parseSite } from './resolve/site.ts';
import { demandOfTags } from './role-tags.ts';

const name = fc.constantFrom('a', 'b', 'c');
const owners: fc.Arbitrary<Owner> = fc.record({ user: name, groups: fc.uniqueArray(name, { maxLength: 2 }), queue: name });
const amounts = fc.dictionary(fc.constantFrom('gpus', 'memory', 'nec.com/VE'), fc.nat(3), { maxKeys: 2, noNullPrototype: true });
const jobs: fc.Arbitrary<RunningJob> = fc
  .record({ owner: owners, roles: fc.dictionary(name, amounts, { maxKeys: 2, noNullPrototype: true }), peak: amounts, beyond: amounts })
  .map(({ owner, ...demand }) => ({ ...owner, ...demand, jobId: 'id', master: { memory: 1 } }));

test('the sums equal those of a pass over all jobs that share the scope and count against the owner', () => {
  const entries = fc.array(fc.tuple(jobs, fc.subarray(['user a', 'group b', 'queue c'])), { maxLength: 12 });
  fc.assert(
    fc.property(entries, owners, fc.option(name), (all, owner, role) => {
      const taken = new TakenResources();
      const numbered = all.map(([job, scopes], index) => ({ job: { ...job, jobId: `j${index}` }, scopes }));
      for (const { job, scopes } of numbered) {
        taken.add(job, scopes);
      }
      const own = scopesWith(owner);
      for (const scope of own) {
        for (const resource of ['gpus', 'memory', 'nec.com/VE']) {
          const against = numbered.filter(
            ({ job, scopes }) => scopes.every((each) => own.includes(each)) && scopesWith(job).includes(scope),
          );
          const amountOf = (job: RunningJob): number => amountsOf(job, role)[resource.toLowerCase()] ?? 0;
          const holders = against.map(({ job }) => job).filter((job) => amountOf(job) > 0);
          expect(taken.against(owner)({ scope, role }, resource)).toEqual({
            used: holders.reduce((sum, job) => sum + amountOf(job), 0),
            holders: holders.slice(0, 3).map(({ jobId }) => jobId),
            holderCount: holders.length,
          });
        }
      }
    }),
  );
});

describe('a claim that could never start counts only with the containers that it holds', () => {
  const TOTAL = 'quotas: {roles: {worker: {total: {gpus: 8}}}';
  test.each([
    ['a peak below the demand of a role', `${TOTAL}, users: {'*': {total: {gpus: 3}}}}`, '*:0:m1024:v1+^:1:m1024:v1+worker:8:m8192:v8:g8'],
    ['an empty peak', `${TOTAL}, users: {'*': {total: {gpus: 3}}}}`, '^:0+worker:8:m8192:v8:g8'],
    ['more for each task than its user may request', `${TOTAL}, users: {'*': {task: {gpus: 0}}, alice: {task: {gpus: 8}}}}`, 'worker:8:g8'],
    ['more for each task than its role may request', `quotas: {roles: {worker: {task: {gpus: 1}, total: {gpus: 8}}}}`, 'worker:1:g8'],
    ['a larger ApplicationMaster than its user may request', `${TOTAL}, users: {bob: {task: {memory: 2g}}}}`, '*:0:m8192:v1+worker:8:g8'],
    ['other instances than the final value', `${TOTAL}}\nfinal: {roles: {worker: {instances: 1}}}`, 'worker:8:m8192:v8:g8'],
    ['other resources than the final value', `${TOTAL}}\nfinal: {roles: {'*': {resources: {gpus: 0}}}}`, 'worker:8:m8192:v8:g8'],
    ['a queue that its user may not use', `${TOTAL}, users: {bob: {queues: [cpu]}}}`, 'worker:8:m8192:v8:g8'],
  ])('%s', (_name, text, entries) => {
    const site = parseSite(text, 'tony-site.yaml');
    const demand = demandOfTags([`tony-roles:${entries}`]);
    expect(demand).not.toBeNull();
    for (const holds of [false, true]) {
      const tasks: Amounts = holds ? { gpus: 1, instances: 1 } : {};
      const claim = { jobId: 'claim', user: 'bob', groups: [], queue: 'gpu', ...takenBy(demand, tasks, {}), holds };
      const { taken } = placeJobs(site, [{ ...claim, held: { tasks, master: {} } }]);
      expect(taken.against({ user: 'alice', groups: [], queue: 'gpu' })({ scope: ALL_JOBS, role: 'worker' }, 'gpus').used).toBe(
        holds ? 1 : 0,
      );
    }
  });

  test('but a job that its limits let start counts with its whole demand', () => {
    const site = parseSite(
      `${TOTAL}, users: {'*': {total: {gpus: 8}}}}\nfinal: {roles: {worker: {resources: {gpus: 2}}}}`,
      'tony-site.yaml',
    );
    const demand = takenBy(demandOfTags(['tony-roles:*:0:m1024:v1+worker:4:m4096:v4:g8']), {}, {});
    const job = { jobId: 'job', user: 'bob', groups: [], queue: 'gpu', ...demand, holds: false, held: { tasks: {}, master: {} } };
    const { taken } = placeJobs(site, [job]);
    expect(taken.against({ user: 'alice', groups: [], queue: 'gpu' })({ scope: ALL_JOBS, role: 'worker' }, 'gpus').used).toBe(8);
  });
});
