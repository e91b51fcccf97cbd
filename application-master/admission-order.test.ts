import fc from 'fast-check';
import { expect, test } from 'vitest';
import { frozen, workers } from '../conf/job.fixture.ts';
import { parseSite } from '../conf/resolve/site.ts';
import { roleTags } from '../conf/role-tags.ts';
import type { ApplicationFilter } from '../hadoop/yarn/resource-manager.ts';
import type { Application } from '../hadoop/yarn/resource-manager-answers.ts';
import { submittedBefore } from '../hadoop/yarn/submission-order.ts';
import { checkLimits } from './admission.ts';

/** Simulates jobs with arbitrary times. Verifies that no total is ever exceeded and that every job is eventually admitted. */

const LIMIT = 4;
const SITE = parseSite(`quotas: {roles: {worker: {total: {gpus: ${LIMIT}}}}}`, 'site.yaml');

interface Plan {
  readonly number: number;
  readonly user: string;
  readonly gpus: number;
  readonly submittedAt: number;
  /** The delay before the job first queries YARN, the interval between its queries, and the delay from a query to the decision. */
  readonly startsIn: number;
  readonly queriesEvery: number;
  readonly decidesAfter: number;
  /** The delay from admission to allocation, the number of allocated containers, and the time from allocation to the job's end. */
  readonly waitsForContainers: number;
  readonly gets: number;
  readonly runs: number;
}

const plan = (number: number): fc.Arbitrary<Plan> =>
  fc.record({
    number: fc.constant(number),
    user: fc.constantFrom('alice', 'bob', 'carol'),
    gpus: fc.integer({ min: 1, max: LIMIT }),
    submittedAt: fc.integer({ min: 1, max: 12 }),
    startsIn: fc.integer({ min: 1, max: 6 }),
    queriesEvery: fc.integer({ min: 1, max: 3 }),
    decidesAfter: fc.integer({ min: 0, max: 2 }),
    waitsForContainers: fc.integer({ min: 1, max: 8 }),
    gets: fc.integer({ min: 1, max: LIMIT }),
    runs: fc.integer({ min: 1, max: 10 }),
  });

class Job {
  readonly plan: Plan;
  readonly id: string;
  readonly frozen: ReturnType<typeof frozen>;
  admittedAt: number | null = null;
  #query: { readonly at: number; readonly seen: readonly Application[] } | null = null;

  constructor(plan: Plan) {
    this.plan = plan;
    this.id = `application_100_${plan.number}`;
    const { gpus } = plan;
    const worker = workers({ instances: gpus, maxInstances: gpus, resources: { memoryMb: 1024, vcores: 1, gpus: 1, other: {} } });
    this.frozen = { ...frozen({ roles: [worker] }), jobId: this.id, user: plan.user };
  }

  isListed(now: number): boolean {
    return now >= this.plan.submittedAt && !this.isOver(now);
  }

  isOver(now: number): boolean {
    const { waitsForContainers, runs } = this.plan;
    return this.admittedAt !== null && now >= this.admittedAt + waitsForContainers + runs;
  }

  taken(now: number): number {
    return this.admittedAt === null || this.isOver(now) ? 0 : this.plan.gpus;
  }

  /** Returns the application as YARN shows it to `viewer`. YARN hides times and containers of other users' applications. */
  application(now: number, viewer: string): Application {
    const { user, submittedAt, waitsForContainers, gets, gpus } = this.plan;
    const has = this.admittedAt !== null && now >= this.admittedAt + waitsForContainers ? Math.min(gets, gpus) : 0;
    return {
      id: this.id,
      user,
      queue: 'root.default',
      tags: roleTags(this.frozen.job),
      startedAt: viewer === user ? submittedAt : 0,
      runningContainers: viewer === user ? has + 1 : 0,
      used: { 'memory-mb': 1024 * has, 'yarn.io/gpu': has },
      usedByMaster: { 'memory-mb': 1024, vcores: 1 },
    } as unknown as Application;
  }

  async turn(now: number, list: (viewer: string, filter?: ApplicationFilter) => Application[]): Promise<void> {
    const { user, submittedAt, startsIn, queriesEvery, decidesAfter } = this.plan;
    const since = now - submittedAt - startsIn;
    if (this.admittedAt !== null || since < 0) {
      return;
    }
    if (this.#query === null && since % queriesEvery === 0) {
      this.#query = { at: now, seen: list(user) };
    }
    if (this.#query === null || now < this.#query.at + decidesAfter) {
      return;
    }
    const { seen } = this.#query;
    this.#query = null;
    const own = seen.find(({ id }) => id === this.id);
    if (own === undefined) {
      throw new Error('not listed');
    }
    // `submittedBefore` queries YARN again. The response describes the cluster at the current step.
    const earlier = await submittedBefore(own, seen, { applications: async (filter) => list(user, filter) }, {});
    const view = {
      own,
      minimumMemoryMb: 1024,
      jobId: this.id,
      user,
      site: SITE,
      queue: own.queue,
      applications: seen,
      earlier,
      groupsOf: () => [],
    };
    if (checkLimits(this.frozen, view).type === 'admitted') {
      this.admittedAt = now;
    }
  }
}

test('admission never exceeds a total, and admits every job eventually', async () => {
  const plans = fc
    .uniqueArray(fc.integer({ min: 1, max: 9 }), { minLength: 2, maxLength: 4 })
    .chain((numbers) => fc.tuple(...numbers.map(plan)));
  await fc.assert(
    fc.asyncProperty(plans, async (all) => {
      const jobs = all.map((each) => new Job(each));
      let now = 0;
      const list = (viewer: string, { submitted: { from = 0, to = now } = {} }: ApplicationFilter = {}): Application[] =>
        jobs
          .filter((job) => job.isListed(now) && job.plan.submittedAt >= from && job.plan.submittedAt <= to)
          .map((job) => job.application(now, viewer));
      for (; jobs.some((job) => !job.isOver(now)); now += 1) {
        if (now > 200) {
          throw new Error(`was never admitted: ${jobs.filter(({ admittedAt }) => admittedAt === null).map(({ id }) => id)}`);
        }
        for (const job of jobs) {
          await job.turn(now, list);
        }
        expect(jobs.reduce((sum, job) => sum + job.taken(now), 0)).toBeLessThanOrEqual(LIMIT);
      }
    }),
    { numRuns: 500 },
  );
});
