import { test } from 'vitest';
import { useCluster } from '../harness.ts';
import { compareWithTwoProcesses } from '../killed-program.ts';

const cluster = useCluster();

test('JAX: a job with a killed program has the result of an undisturbed run of two processes', async () => {
  await compareWithTwoProcesses(cluster, 'jax', 'jax==0.10.2', false);
});
