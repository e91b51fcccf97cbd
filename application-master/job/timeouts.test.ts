import { expect, it } from 'vitest';
import { frozen, workers } from './simulator/example-job.ts';
import { graceMs, heartbeatIntervalMs, leaseMs, reattachMs, silenceMs } from './timeouts.ts';

it('executors send heartbeats at the configured interval, and less often in a job with thousands of executors', () => {
  const of = (instances: number) => frozen({ roles: [workers({ instances })] }).job;
  expect(heartbeatIntervalMs(of(2))).toBe(1_000);
  expect(heartbeatIntervalMs(of(500))).toBe(1_000);
  expect(heartbeatIntervalMs(of(4_000))).toBe(8_000);
  expect(silenceMs(of(4_000))).toBe(80_000);
});

it('a lease is longer than the time to reattach, and the grace period is longer than the time to detect a silent peer', () => {
  for (const missed of [2, 10, 60]) {
    const { job } = frozen({ roles: [workers()], heartbeat: { intervalMs: 1_000, missed } });
    expect(leaseMs(job)).toBeGreaterThanOrEqual(reattachMs(job));
    expect(leaseMs(job)).toBeGreaterThan(silenceMs(job));
    expect(graceMs(job)).toBeGreaterThan(silenceMs(job));
  }
});
