import { expect, it } from 'vitest';
import { frozen, role, workers } from '../../../conf/job.fixture.ts';
import { answerMs, endMs, heartbeatIntervalMs, incidentMs, leaseMs, reattachMs, silenceMs } from './timeouts.ts';

it('executors send heartbeats at the configured interval, and less often in a job with thousands of executors', () => {
  const of = (instances: number) => frozen({ roles: [workers({ instances })] }).job;
  expect(heartbeatIntervalMs(of(2))).toBe(1_000);
  expect(heartbeatIntervalMs(of(500))).toBe(1_000);
  expect(heartbeatIntervalMs(of(4_000))).toBe(8_000);
  expect(silenceMs(of(4_000))).toBe(80_000);
});

it('a lease is longer than the time to reattach, and the grace period is longer than the time to detect a silent peer', () => {
  for (const missed of [2, 10, 60]) {
    const whole = frozen({ roles: [workers()], heartbeat: { intervalMs: 1_000, missed } });
    const { job } = whole;
    expect(leaseMs(whole, 'worker')).toBeGreaterThanOrEqual(reattachMs(job));
    expect(leaseMs(whole, 'worker')).toBeGreaterThan(silenceMs(job));
    expect(incidentMs(job)).toBeGreaterThan(silenceMs(job));
  }
});

it('an executor may use the grace period of its role before it answers, and a job before it ends', () => {
  const roles = [workers({ gracePeriodMs: 3_000 }), role({ name: 'evaluator', gracePeriodMs: 120_000 })];
  const { job } = frozen({ roles });
  expect(job.roles.map((each) => answerMs(job, each))).toEqual([30_000, 147_000]);
  expect(endMs(job)).toBe(152_000);
});

it('the lease of ranked tasks covers the time until YARN replaces the ApplicationMaster; successors of other tasks do not wait that long', () => {
  const cluster = (masterReplacementMs?: number) => ({
    kind: 'yarn' as const,
    hadoop: {},
    ...(masterReplacementMs && { masterReplacementMs }),
  });
  const allReduce = frozen({ roles: [workers(), role({ name: 'evaluator' })] });
  const lease = (name: string, ms?: number, whole = allReduce) => leaseMs({ ...whole, cluster: cluster(ms) }, name);
  expect([lease('worker'), lease('worker', 44_000), lease('worker', 830_000), lease('worker', 9e6)]).toEqual([
    120_000, 120_000, 830_000, 1_800_000,
  ]);
  expect([lease('evaluator', 830_000), lease('unknown', 830_000)]).toEqual([120_000, 120_000]);
  const servers = frozen({ roles: [workers(), role({ name: 'ps', kind: 'service', servesParameters: true })] });
  expect([lease('worker', 830_000, servers), lease('ps', 830_000, servers)]).toEqual([120_000, 830_000]);
});
