import { expect, test } from 'vitest';
import { Lateness, MasterVitals } from './master-vitals.ts';

test('a delay counts once for each timer beat that it delayed', () => {
  const lateness = new Lateness();
  expect(lateness.percentile(0.99)).toBe(0);
  for (let beat = 0; beat < 1000; beat++) {
    lateness.record(1);
  }
  lateness.record(1000);
  expect(lateness.percentile(0.99)).toBeGreaterThan(400);
  expect(lateness.percentile(0.9)).toBe(1);
  for (let beat = 0; beat < 1200; beat++) {
    lateness.record(2);
  }
  expect(lateness.percentile(0.999)).toBe(2);
  // The process was suspended for longer than the window, for example because a laptop was closed.
  lateness.record(1e9);
  expect(lateness.percentile(0)).toBeGreaterThan(1e8);
});

test('a busy process measures the delay of its event loop', async () => {
  const vitals = new MasterVitals('node1');
  try {
    const end = performance.now() + 1500;
    while (performance.now() < end) {}
    await expect.poll(() => vitals.read().latenessMs).toBeGreaterThan(900);
    expect(vitals.read()).toMatchObject({ node: 'node1', cpuCores: expect.closeTo(0.7, -0.5) });
    expect(vitals.read().memoryBytes).toBeGreaterThan(1e6);
  } finally {
    vitals.close();
  }
});
