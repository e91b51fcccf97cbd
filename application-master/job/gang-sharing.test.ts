import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { frozen, role, workers } from '../../conf/job.fixture.ts';
import { JobScenario } from './simulator/job-scenario.ts';
import { LIMITS } from './state/job-state.ts';

// Several jobs on one cluster with a fixed number of container slots. Like YARN, the cluster allocates containers one by one, serves the
// jobs in submission order, and gives a slot to the first job that requests it.

const STEP_MS = 500;

interface Tenant {
  readonly scene: JobScenario;
  readonly size: number;
  /** Containers that occupy a slot. */
  readonly held: Set<string>;
  readonly runMs: number;
  readonly submittedAt: number;
  startedAt: number | null;
  endedAt: number | null;
  /** Actions that the cluster has already carried out. */
  seen: number;
}

class SharedCluster {
  readonly tenants: Tenant[] = [];
  now = 0;
  readonly #slots: number;
  /** The longest time in ms for which a job held containers, without a change of their number and without a running program. */
  longestIdleHold = 0;
  readonly #holds = new Map<Tenant, { size: number; since: number }>();

  constructor(slots: number) {
    this.#slots = slots;
  }

  get free(): number {
    return this.#slots - this.tenants.reduce((sum, { held }) => sum + held.size, 0);
  }

  submit(size: number, runMs: number, ranked = true): Tenant {
    const id = `application_1_${String(this.tenants.length + 1).padStart(4, '0')}`;
    const roles = [ranked ? workers({ instances: size }) : role({ name: 'worker', instances: size, chief: true })];
    const job = { ...frozen({ roles, gang: { timeoutMs: 24 * 3_600_000 } }), jobId: id };
    const scene = new JobScenario(job);
    scene.register();
    const tenant = { scene, size, held: new Set<string>(), runMs, submittedAt: this.now, startedAt: null, endedAt: null, seen: 0 };
    this.tenants.push(tenant);
    return tenant;
  }

  /** Advances all jobs by one step. Each node heartbeat allocates at most `perStep` containers. */
  advance(perStep = 2): void {
    this.now += STEP_MS;
    let left = perStep;
    for (const tenant of this.tenants) {
      const { scene, held } = tenant;
      if (tenant.endedAt !== null) {
        continue;
      }
      scene.say({ type: 'cluster', nodes: 2, headroom: { 'memory-mb': this.free * 1024, vcores: this.free } });
      while (left > 0 && this.free > 0 && scene.wanted('worker') > 0) {
        const id = scene.allocate('worker');
        held.add(id);
        scene.hello(id);
        left--;
      }
      scene.wait(STEP_MS);
      this.#carryOut(tenant);
      this.#observe(tenant);
    }
  }

  #carryOut(tenant: Tenant): void {
    const { scene, held } = tenant;
    for (; tenant.seen < scene.actions.length; tenant.seen++) {
      const action = scene.actions[tenant.seen];
      if (action?.type === 'stop-container' || action?.type === 'release') {
        held.delete(action.containerId);
        scene.end(action.containerId, 'released');
      } else if (action?.type === 'start') {
        scene.started(action.containerId, action.generation);
        tenant.startedAt ??= this.now;
      }
    }
    if (tenant.startedAt !== null && held.size === tenant.size && this.now - tenant.startedAt >= tenant.runMs) {
      tenant.endedAt = this.now;
      held.clear();
    }
  }

  #observe(tenant: Tenant): void {
    const { held } = tenant;
    const before = this.#holds.get(tenant);
    const isIdle = held.size > 0 && tenant.startedAt === null;
    if (!isIdle || before?.size !== held.size) {
      this.#holds.set(tenant, { size: held.size, since: this.now });
    } else {
      this.longestIdleHold = Math.max(this.longestIdleHold, this.now - before.since);
    }
  }

  runUntil(done: () => boolean, mostMs: number, perStep = 2): boolean {
    const end = this.now + mostMs;
    while (!done() && this.now < end) {
      this.advance(perStep);
    }
    return done();
  }
}

describe('gangs that share a cluster', () => {
  it('a gang that does not fit leaves the room to a small job, and runs when the cluster is free', () => {
    const cluster = new SharedCluster(16);
    const long = cluster.submit(4, 600_000);
    cluster.runUntil(() => long.startedAt !== null, 10_000);
    const gang = cluster.submit(14, 60_000);
    cluster.runUntil(() => false, 5_000, 4);
    expect([gang.held.size, cluster.free]).toEqual([12, 0]);
    const small = cluster.submit(2, 10_000);
    expect(cluster.runUntil(() => small.startedAt !== null, 30_000)).toBe(true);
    expect(cluster.runUntil(() => gang.startedAt !== null, 900_000)).toBe(true);
    expect(gang.startedAt).toBeLessThan((long.endedAt ?? 0) + LIMITS.longestReturnedMs);
  });

  it('of two gangs that each hold a part, one runs first, and the other one runs after it', () => {
    const cluster = new SharedCluster(8);
    const [one, other] = [cluster.submit(6, 60_000), cluster.submit(6, 60_000)];
    // Both get containers in turn.
    for (let n = 0; n < 4; n++) {
      for (const { scene, held } of [one, other]) {
        const id = scene.allocate('worker');
        held.add(id);
        scene.hello(id);
      }
    }
    expect(cluster.runUntil(() => one.endedAt !== null && other.endedAt !== null, 600_000)).toBe(true);
  });

  it('every gang runs eventually, and no gang holds idle containers for long', () => {
    const load = fc.record({
      slots: fc.integer({ min: 4, max: 16 }),
      perStep: fc.integer({ min: 1, max: 8 }),
      jobs: fc.array(fc.record({ share: fc.double({ min: 0.1, max: 1, noNaN: true }), runS: fc.integer({ min: 5, max: 200 }) }), {
        minLength: 2,
        maxLength: 5,
      }),
    });
    fc.assert(
      fc.property(load, ({ slots, perStep, jobs }) => {
        const cluster = new SharedCluster(slots);
        for (const { share, runS } of jobs) {
          cluster.submit(Math.max(1, Math.round(slots * share)), runS * 1_000);
          cluster.runUntil(() => false, 4_000, perStep);
        }
        const total = jobs.reduce((sum, { runS }) => sum + runS * 1_000, 0);
        expect(cluster.runUntil(() => cluster.tenants.every(({ endedAt }) => endedAt !== null), total + 3_600_000, perStep)).toBe(true);
        expect(cluster.longestIdleHold).toBeLessThanOrEqual(LIMITS.longestHoldMs + 2 * STEP_MS);
      }),
      { numRuns: 25 },
    );
  });
});
