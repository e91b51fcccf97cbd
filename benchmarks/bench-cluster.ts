import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import path from 'node:path';
import { Cluster } from '../integration-tests/cluster/cluster.mjs';

export interface BenchCluster {
  readonly cluster: Cluster;
  /** An empty folder for the files of the benchmark. */
  readonly folder: string;
  /** Removes the folder, and stops the cluster if `openCluster` started it. */
  close(): Promise<void>;
}

/** Opens the local cluster, and starts it if it is not running. */
export async function openCluster(name: string, log: (line: string) => void): Promise<BenchCluster> {
  const cluster = new Cluster(Number(process.env.TONY_CLUSTER_OFFSET ?? 0));
  const wasUp = (await cluster.status()).ready;
  await mkdir('.cache', { recursive: true });
  const folder = await mkdtemp(path.resolve('.cache', `${name}-`));
  const close = async (): Promise<void> => {
    await rm(folder, { recursive: true, force: true });
    if (!wasUp) {
      await cluster.down();
    }
  };
  if (!wasUp) {
    // The documented results were measured with this interval. The tests' clusters use a longer one.
    await cluster.up({ overrides: { yarn: { 'yarn.resourcemanager.nodemanagers.heartbeat-interval-ms': 250 } }, log });
  }
  return { cluster, folder, close };
}
