/**
 * Stops clusters when their owner ends for any reason: the owner holds the writing end of this process's stdin and never writes to it.
 * Usage: node watchdog.mjs OFFSET ...
 */
import { Cluster } from './cluster.mjs';

process.stdin.resume();
process.stdin.once('end', async () => {
  // Cluster objects are created only at the end, because the profile is known only after the cluster has started.
  await Promise.all(process.argv.slice(2).map((offset) => new Cluster(Number(offset)).down()));
});
