import { expect, test } from 'vitest';
import { useCluster } from '../harness.ts';
import { sparkSubmit } from '../spark-submit.ts';

const cluster = useCluster();

test('a Spark driver in a container runs a job with the command and the Python package from an archive', async () => {
  expect(await sparkSubmit({ mode: 'cluster', client: cluster.clientEnvironment() })).toContain('final status: SUCCEEDED');
});
