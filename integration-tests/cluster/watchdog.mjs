/**
 * Stops clusters when their owner ends for any reason: the owner holds the writing end of this process's stdin and never writes to it.
 * Usage: node watchdog.mjs OFFSET ...
 */
import { Cluster } from './cluster.mjs';

process.stdin.resume();
process.stdin.once('end', async () => {
  // Only now: their profiles are known once they have been started.
  await Promise.all(process.argv.slice(2).map((offset) => new Cluster(Number(offset)).down()));
});
