/** Runs once before and after all tests of one `vitest` run that need a cluster, in Vitest's own process. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import type { TestProject } from 'vitest/node';
import { Cluster } from './cluster/cluster.mjs';
import { LARGEST_OFFSET } from './cluster/layout.mjs';
import { processesWithArgument } from './cluster/processes.mjs';

declare module 'vitest' {
  interface ProvidedContext {
    /** Port offset of the run's shared cluster, which the first test that needs it starts. */
    clusterOffset: number;
  }
}

const WATCHDOG = path.join(import.meta.dirname, 'cluster', 'watchdog.mjs');
/** The search for free ports starts here, away from the ports of a cluster started with `npm run cluster`. */
const FIRST_OFFSET = 11_000;

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const cluster = await clusterOfThisRun();
  await cluster.wipe();
  // The watchdog reads a pipe whose writing end this process holds: when this process is killed, the watchdog stops the cluster.
  const watchdog = spawn(process.execPath, [WATCHDOG, String(cluster.offset)], { stdio: ['pipe', 'inherit', 'inherit'], detached: true });
  project.provide('clusterOffset', cluster.offset);
  return async () => {
    watchdog.stdin.end();
    await once(watchdog, 'exit');
  };
}

async function clusterOfThisRun(): Promise<Cluster> {
  // Its own name: tests erase this cluster, and the cluster that `npm run cluster` controls may hold a developer's data.
  const given = process.env.TONY_TEST_CLUSTER_OFFSET;
  if (given !== undefined) return new Cluster(Number(given));
  const watched = new Set((await processesWithArgument(WATCHDOG)).map(({ args }) => args.at(-1)));
  for (let offset = FIRST_OFFSET; offset <= LARGEST_OFFSET; offset += 1000) {
    const cluster = new Cluster(offset);
    if (!watched.has(String(offset)) && (await cluster.portsInUse()).length === 0) return cluster;
  }
  throw new Error('no free range of ports was found for the cluster; give one by TONY_TEST_CLUSTER_OFFSET');
}
