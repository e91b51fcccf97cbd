/** Runs once before and after all integration tests of one `vitest` run, in vitest's own process. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import type { TestProject } from 'vitest/node';
import { buildAll } from '../tools/build.mjs';
import { Cluster } from './cluster/cluster.mjs';
import { LARGEST_OFFSET } from './cluster/layout.mjs';
import { processesWithArgument } from './cluster/processes.mjs';

declare module 'vitest' {
  interface ProvidedContext {
    /** Port offset of the run's one cluster, which the first test that needs it brings up. */
    clusterOffset: number;
  }
}

const WATCHDOG = path.join(import.meta.dirname, 'cluster', 'watchdog.mjs');
/** Where the search for free ports begins: out of the way of a cluster that a person has up. */
const FIRST_OFFSET = 11_000;

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  await buildAll({ types: false });
  const cluster = await clusterOfThisRun();
  await cluster.wipe();
  // It holds the reading end of a pipe whose writing end is ours: should this process be killed, the cluster goes all the same.
  const watchdog = spawn(process.execPath, [WATCHDOG, String(cluster.offset)], { stdio: ['pipe', 'inherit', 'inherit'], detached: true });
  project.provide('clusterOffset', cluster.offset);
  return async () => {
    watchdog.stdin.end();
    await once(watchdog, 'exit');
  };
}

async function clusterOfThisRun(): Promise<Cluster> {
  // A name of its own: this cluster is emptied, and the one that `npm run cluster` speaks of may hold somebody's work.
  const given = process.env.TONY_TEST_CLUSTER_OFFSET;
  if (given !== undefined) return new Cluster(Number(given));
  const watched = new Set((await processesWithArgument(WATCHDOG)).map(({ args }) => args.at(-1)));
  for (let offset = FIRST_OFFSET; offset <= LARGEST_OFFSET; offset += 1000) {
    const cluster = new Cluster(offset);
    if (!watched.has(String(offset)) && (await cluster.portsInUse()).length === 0) return cluster;
  }
  throw new Error('no free range of ports was found for the cluster; give one by TONY_TEST_CLUSTER_OFFSET');
}
