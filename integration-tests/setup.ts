/** Global setup and teardown of a `vitest` run with tests that need a cluster. Runs in Vitest's main process. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import type { TestProject } from 'vitest/node';
import { Cluster } from './cluster/cluster.mjs';
import { LARGEST_OFFSET, OWN_CLUSTER_OFFSET } from './cluster/layout.mjs';
import { processesWithArgument } from './cluster/processes.mjs';

declare module 'vitest' {
  interface ProvidedContext {
    /** Port offsets of the run's clusters, one per Vitest worker. Each worker's cluster starts with the first test that needs it. */
    clusterOffsets: readonly number[];
  }
}

const WATCHDOG = path.join(import.meta.dirname, 'cluster', 'watchdog.mjs');
/** The search for free ports starts at this offset, far from the default ports of `npm run cluster`. */
const FIRST_OFFSET = 11_000;
/** Added for the project `own-cluster`, so that two projects that start at the same moment find different ports. */
const OWN_CLUSTER_PROJECT = 2000;

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const clusters = await clustersOfThisRun(project);
  const offsets = clusters.map(({ offset }) => offset);
  const all = offsets.flatMap((offset) => [offset, offset + OWN_CLUSTER_OFFSET]);
  for (const offset of all) {
    await new Cluster(offset).wipe();
  }
  // The watchdog's stdin is a pipe from this process. When this process ends, even by SIGKILL, the watchdog stops the clusters.
  const watchdog = spawn(process.execPath, [WATCHDOG, ...all.map(String)], { stdio: ['pipe', 'inherit', 'inherit'], detached: true });
  project.provide('clusterOffsets', offsets);
  return async () => {
    watchdog.stdin.end();
    await once(watchdog, 'exit');
  };
}

async function clustersOfThisRun({ name, config }: TestProject): Promise<Cluster[]> {
  const count = config.maxWorkers;
  // The tests erase their clusters. They do not use the variable of `npm run cluster`, because that cluster may contain a developer's data.
  const first = Number(process.env.TONY_TEST_CLUSTER_OFFSET || FIRST_OFFSET) + (name === 'own-cluster' ? OWN_CLUSTER_PROJECT : 0);
  const watched = new Set(processesWithArgument(WATCHDOG).flatMap(({ args }) => args));
  const clusters: Cluster[] = [];
  for (let offset = first; offset + OWN_CLUSTER_OFFSET <= LARGEST_OFFSET && clusters.length < count; offset += 1000) {
    const [cluster, own] = [new Cluster(offset), new Cluster(offset + OWN_CLUSTER_OFFSET)];
    const inUse = [...(await cluster.portsInUse()), ...(await own.portsInUse())];
    if (!watched.has(String(offset)) && inUse.length === 0) {
      clusters.push(cluster);
    }
  }
  if (clusters.length < count) {
    throw new Error(`found no free port ranges for ${count} clusters; set TONY_TEST_CLUSTER_OFFSET to start the search at another offset`);
  }
  return clusters;
}
