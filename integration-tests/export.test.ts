import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ensureRuntime, type Runtime } from '../client/runtime/ensure-runtime.ts';
import { programEnvironment } from '../contract/process/program-environment.ts';
import { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { createStorage } from '../storage/create-storage.ts';
import type { Storage } from '../storage/storage.ts';
import { ROOT } from './command.ts';
import { execute } from './execute.ts';
import { USER, useCluster } from './harness.ts';

const cluster = useCluster();
const FOLDER = `hdfs:///user/${USER}/export-test`;
let runtime: Runtime;
let storage: Storage;

beforeAll(async () => {
  runtime = await ensureRuntime((line) => console.log(line));
  storage = createStorage({ hadoop: await HadoopConfiguration.fromEnvironment(cluster.environment()), user: USER });
});
afterAll(async () => {
  await storage.remove(FOLDER);
  storage.close();
});

test.each([
  ['native', null],
  ['wasm', 'native'],
  ['cpu', 'wasm'],
] as const)('backend %s loads models from HDFS unchanged, both its own and those of backend %s', async (backend, other) => {
  const { PATH, HOME } = process.env;
  const environment = { PATH, HOME, ...cluster.environment(), HADOOP_USER_NAME: USER, TONY_BACKEND: backend };
  const env = { ...environment, ...programEnvironment(path.join(ROOT, 'dist', 'container'), runtime.tree, environment) };
  const program = path.join(ROOT, 'integration-tests', 'programs', 'export-models.ts');
  const folders = [backend, ...(other === null ? [] : [other])].map((name) => `${FOLDER}/${name}`);
  const { stdout } = await execute(path.join(runtime.tree, 'bin', 'node'), [program, ...folders], {
    env,
  });
  const result = JSON.parse(stdout.trim().split('\n').at(-1) as string) as { differences: Record<string, number> };
  expect(result).toMatchObject({ backend, leaked: 0, taken: 8, left: [] });
  expect(Object.keys(result.differences)).toHaveLength(folders.length * (backend === 'native' ? 4 : 2));
  for (const difference of Object.values(result.differences)) {
    expect(difference).toBeLessThan(1e-4);
  }
});
