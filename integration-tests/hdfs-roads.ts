import { cp, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'vitest';
import { type Properties, toXml } from './cluster/configuration.mjs';
import { jsonLines, type TestCluster } from './harness.ts';

/** Returns the environment of a client that uses a copy of the configuration with other files. */
export async function changedConfiguration(
  { configuration }: TestCluster,
  copy: string,
  files: Readonly<Record<string, Properties | string>>,
): Promise<{ HADOOP_CONF_DIR: string }> {
  await cp(configuration, copy, { recursive: true });
  for (const [file, content] of Object.entries(files)) {
    await writeFile(path.join(copy, file), typeof content === 'string' ? content : toXml(content));
  }
  return { HADOOP_CONF_DIR: copy };
}

/** Settings of a client that cannot reach the web server of the NameNode, and therefore no DataNode either. */
export function withoutNameNode({ ports }: TestCluster): Properties {
  return {
    'dfs.nameservices': 'ns1',
    'dfs.ha.namenodes.ns1': 'a',
    'dfs.namenode.rpc-address.ns1.a': `localhost:${ports.namenode.rpc}`,
    // No server listens at this address.
    'dfs.namenode.http-address.ns1.a': 'localhost:1',
  };
}

/** Checks that doctor finds no problem, and returns its finding about the NameNode. */
export async function nameNodeOf(cluster: TestCluster, env: Record<string, string>): Promise<Readonly<Record<string, unknown>>> {
  const { stdout, stderr, exitCode } = await cluster.run(['doctor', '--output', 'json'], { env });
  const findings = jsonLines(stdout);
  expect(findings.filter(({ state }) => state !== 'ok')).toEqual([]);
  expect(exitCode, stderr).toBe(0);
  return findings.find(({ name }) => name === 'NameNode') ?? {};
}
